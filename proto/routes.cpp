#include "proto/routes.hpp"

#include <fmt/format.h>

namespace rubato::proto {
namespace {

// Sets of roles, a bit each.
using Roles = unsigned;

constexpr Roles bit(Role role) {
  return 1U << static_cast<unsigned>(role);
}

constexpr Roles kNobody = 0;
constexpr Roles kScheduler = bit(Role::Scheduler);
constexpr Roles kServer = bit(Role::Server);
constexpr Roles kWorker = bit(Role::Worker);
constexpr Roles kEvaluator = bit(Role::Evaluator);
constexpr Roles kAnybody = kScheduler | kServer | kWorker | kEvaluator;

// Who sends a kind of message to each role.
struct Senders {
  Roles to_scheduler = kNobody;
  Roles to_server = kNobody;
  Roles to_worker = kNobody;
  Roles to_evaluator = kNobody;
};

struct SendersOf {
  // Joining.
  Senders operator()(const Describe&) const { return {.to_scheduler = kServer | kWorker}; }
  Senders operator()(const Described&) const { return from_scheduler(kServer | kWorker); }
  Senders operator()(const Schema&) const { return from_scheduler(kServer | kWorker); }
  Senders operator()(const Hello&) const {
    return {.to_scheduler = kServer | kWorker | kEvaluator};
  }
  Senders operator()(const Welcome&) const {
    return from_scheduler(kServer | kWorker | kEvaluator);
  }
  Senders operator()(const Start&) const { return from_scheduler(kWorker | kEvaluator); }
  // The end, and what is wrong.
  Senders operator()(const Leave&) const {
    return {.to_scheduler = kServer | kWorker | kEvaluator};
  }
  Senders operator()(const Stop&) const { return from_scheduler(kServer | kWorker | kEvaluator); }
  Senders operator()(const Refusal&) const {
    return {.to_server = kScheduler,
            .to_worker = kScheduler | kServer,
            .to_evaluator = kScheduler | kServer};
  }
  Senders operator()(const Notice&) const { return from_scheduler(kServer | kWorker); }
  // Scheduler and server.
  Senders operator()(const Members&) const { return from_scheduler(kServer); }
  Senders operator()(const Save&) const { return from_scheduler(kServer); }
  Senders operator()(const MembersAck&) const { return {.to_scheduler = kServer}; }
  // The parameter path.
  Senders operator()(const Pull&) const { return {.to_server = kWorker | kEvaluator}; }
  Senders operator()(const Commit&) const { return {.to_server = kWorker}; }
  Senders operator()(const Probe&) const { return {.to_server = kWorker}; }
  Senders operator()(const ProbeReply&) const { return {.to_worker = kServer}; }
  Senders operator()(const Parameters&) const {
    return {.to_worker = kServer, .to_evaluator = kServer};
  }
  // Control.
  Senders operator()(const Progress&) const { return {.to_scheduler = kWorker}; }
  Senders operator()(const Directive&) const { return from_scheduler(kWorker); }
  Senders operator()(const Evaluation&) const { return {.to_scheduler = kWorker | kEvaluator}; }
  Senders operator()(const Heartbeat&) const {
    return {.to_scheduler = kServer | kWorker | kEvaluator,
            .to_server = kScheduler | kWorker,
            .to_worker = kScheduler | kServer,
            .to_evaluator = kScheduler};
  }
  Senders operator()(const AskStatus&) const { return {.to_scheduler = kAnybody}; }
  Senders operator()(const Status&) const { return {}; }  // for a command, which is no node

 private:
  static Senders from_scheduler(Roles to) {
    const auto sent_to = [to](Roles role) { return (to & role) != 0 ? kScheduler : kNobody; };
    return {.to_server = sent_to(kServer),
            .to_worker = sent_to(kWorker),
            .to_evaluator = sent_to(kEvaluator)};
  }
};

}  // namespace

bool has_route(Role from, Role to, const Body& body) {
  const Senders senders = std::visit(SendersOf{}, body);
  const Roles all = to == Role::Scheduler ? senders.to_scheduler
                    : to == Role::Server  ? senders.to_server
                    : to == Role::Worker  ? senders.to_worker
                                          : senders.to_evaluator;
  return (all & bit(from)) != 0;
}

std::string no_route_text(Role to, const Message& message) {
  if (to == Role::Scheduler && message.sender.role == Role::Scheduler)
    return "a cluster has one scheduler, and it is this one";
  return fmt::format("{} has no use for {} from {}", role_name(to), body_name(message.body),
                     to_string(message.sender));
}

}  // namespace rubato::proto
