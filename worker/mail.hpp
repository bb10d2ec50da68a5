// worker/mail.hpp - the messages that a worker or evaluator has to send. Mail writes on each who
// sends it.
// Pure. Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "proto/outbox.hpp"

namespace rubato::worker {

inline constexpr proto::NodeId kScheduler{proto::Role::Scheduler, 0};

class Mail {
 public:
  Mail(std::uint64_t cluster, proto::NodeId self, Incarnation incarnation)
      : cluster_(cluster), self_(self), incarnation_(incarnation) {}

  proto::NodeId sender() const { return self_; }
  Incarnation incarnation() const { return incarnation_; }
  // The sender of all messages from now on. Messages that wait already keep the old one.
  void sign_as(proto::NodeId self, Incarnation incarnation) {
    self_ = self;
    incarnation_ = incarnation;
  }
  proto::Message sign(proto::Body body, proto::Payload payload = {}) const {
    return {.cluster = cluster_,
            .sender = self_,
            .incarnation = incarnation_,
            .body = std::move(body),
            .payload = std::move(payload)};
  }
  void send(proto::NodeId to, proto::Body body) { outbox_.push({to, sign(std::move(body))}); }
  // Sends, and the receiver is to answer.
  void ask(Instant now, proto::NodeId to, proto::Body body) {
    proto::ToNode out{to, sign(std::move(body))};
    out.message.sent = now;
    outbox_.push(std::move(out));
  }
  std::optional<proto::ToNode> poll() { return outbox_.poll(); }

 private:
  std::uint64_t cluster_;
  proto::NodeId self_;
  Incarnation incarnation_;
  proto::Outbox<proto::ToNode> outbox_;
};

}  // namespace rubato::worker
