// tests/cluster/loop_peers.hpp - a scheduler and one server behind a Transport, for the real loop
// of a worker: W <- W - U for each chunk of a commit, and the answer, at once or when the test
// says. They note what they hear, so that two kinds of loop can be compared.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "proto/compression.hpp"
#include "proto/transport.hpp"
#include "tests/worker/worker_world.hpp"

namespace rubato::cluster {

using worker::kCluster;
using worker::kSchedulerNode;
using worker::server_node;

inline constexpr std::size_t kParameters = 5;
inline constexpr std::uint64_t kChunk = 2;

class LoopPeers final : public proto::Transport {
 public:
  explicit LoopPeers(std::size_t parameters = kParameters) : weights(parameters) {}

  Result<std::string> listen(const std::string& endpoint) override { return endpoint; }
  Result<proto::PeerId> connect(const std::string& endpoint, const std::string&) override {
    return endpoint == "scheduler" ? 1 : 2;
  }
  Result<std::size_t> send(proto::PeerId, const proto::Message& message) override {
    note(message);
    if (std::holds_alternative<proto::Hello>(message.body)) {
      answer(kSchedulerNode, proto::Welcome{.you = {proto::Role::Worker, 0},
                                            .parameters = weights.size(),
                                            .range = {},
                                            .shards = {{{{0, weights.size()}, "server"}}}});
      answer(kSchedulerNode, proto::Start{seeding});
    } else if (const auto* pull = std::get_if<proto::Pull>(&message.body)) {
      if (pulls++ > 0)
        for (float& weight : weights) weight += others;
      parameters(pull->sequence, 0, weights.size());
    } else if (const auto* commit = std::get_if<proto::Commit>(&message.body)) {
      std::vector<float> update(commit->count);
      RUBATO_TRY(proto::decompress(commit->codec, message.payload.bytes(), update));
      if (refuse_at && commit->sequence == *refuse_at) {
        refuse_at.reset();
        answer(server_node(0), proto::Refusal{proto::RefusalCode::NotMember, "who?"});
        return 1;
      }
      addresses.push_back(message.payload.bytes().data());
      if (commit->seeding > 0) return take_seed(*commit, update);
      for (std::size_t i = 0; i < update.size() && !commit->discard; ++i) {
        float& weight = weights[commit->offset + i];
        weight = commit->elastic ? weight + 0.5F * (update[i] - weight) : weight - update[i];
      }
      if (keeps) heard.push_back(message);
      if (commit->offset == 0) ++commits;
      parameters(commit->sequence, commit->offset, commit->count, commit->discard);
    }
    return 1;
  }
  Result<std::optional<proto::Received>> receive(Duration timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(timeout.ns),
                      [this] { return woken_ || !inbox_.empty(); });
    woken_ = false;
    if (inbox_.empty()) return std::optional<proto::Received>();
    proto::Received received = std::move(inbox_.front());
    inbox_.pop_front();
    return std::optional(std::move(received));
  }
  void wake() override {
    ++wakes;
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }

  // From any thread: sends the answers kept back; as a server that knows this worker no more.
  void release() {
    const std::lock_guard lock(mutex_);
    for (auto& kept : kept_) inbox_.push_back(std::move(kept));
    kept_.clear();
    changed_.notify_one();
  }
  void refuse() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
    inbox_.push_back(from(server_node(0), proto::Refusal{proto::RefusalCode::NotMember, "who?"}));
    changed_.notify_one();
  }

  // From any thread: as the scheduler, when a server has come back.
  void call_again() {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(from(kSchedulerNode, proto::Notice{"", true}));
    changed_.notify_one();
  }

  // Answers to the chunks of commits from this element on are kept.
  std::uint64_t keep_from = std::numeric_limits<std::uint64_t>::max();
  std::atomic<bool> corrupt_last = false;  // the answer to a commit's last chunk has no payload
  std::atomic<int> wakes = 0;
  std::atomic<int> pulls = 0;
  float others = 0;  // what other workers add before each pull but the first
  std::uint64_t commits = 0;
  bool keeps = true;
  std::vector<proto::Message> heard;        // the chunks of commits, if kept
  std::vector<const std::byte*> addresses;  // where their payloads lie
  std::uint32_t seeding = 0;                // asks for initial values under this number
  std::optional<Sequence> refuse_at = {};   // this commit is answered once: no member
  // The messages of a worker that do not depend on its speed, in order.
  std::string noted;
  std::vector<float> weights;

 private:
  static proto::Received from(proto::NodeId sender, proto::Body body, proto::Payload payload = {}) {
    return {sender.role == proto::Role::Scheduler ? proto::PeerId{1} : proto::PeerId{2},
            proto::Message{.cluster = kCluster,
                           .sender = sender,
                           .incarnation = 1,
                           .body = std::move(body),
                           .payload = std::move(payload)},
            1};
  }
  void note(const proto::Message& message) {
    if (const auto* hello = std::get_if<proto::Hello>(&message.body)) {
      noted += fmt::format("hello {} {} again {}\n", hello->name, hello->parameters, hello->again);
    } else if (const auto* pull = std::get_if<proto::Pull>(&message.body)) {
      noted += fmt::format("pull {}\n", pull->sequence);
    } else if (const auto* leave = std::get_if<proto::Leave>(&message.body)) {
      noted += fmt::format("leave {}\n", leave->reason);
    } else if (const auto* commit = std::get_if<proto::Commit>(&message.body)) {
      std::vector<float> values(commit->count);
      if (!proto::decompress(commit->codec, message.payload.bytes(), values)) values.clear();
      noted += fmt::format(
          "commit {} {}+{}/{} steps {} discard {} elastic {} weight {} seeding {}: {}\n",
          commit->sequence, commit->offset, commit->count, commit->total, commit->steps,
          commit->discard, commit->elastic, commit->weight, commit->seeding,
          fmt::join(values, " "));
    }
  }
  Result<std::size_t> take_seed(const proto::Commit& commit, const std::vector<float>& values) {
    std::ranges::copy(values, weights.begin() + static_cast<std::ptrdiff_t>(commit.offset));
    seeded_ += commit.count;
    if (seeded_ < weights.size()) {
      answer(server_node(0), proto::ProbeReply{.sequence = commit.sequence, .missing_offsets = {}});
      return 1;
    }
    seeding = 0;
    for (std::size_t at = 0; at < weights.size(); at += kChunk)
      parameters(commit.sequence, at, std::min<std::size_t>(kChunk, weights.size() - at));
    answer(kSchedulerNode, proto::Start{});
    return 1;
  }
  void answer(proto::NodeId sender, proto::Body body, proto::Payload payload = {}) {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(from(sender, std::move(body), std::move(payload)));
  }
  void parameters(Sequence sequence, std::uint64_t offset, std::uint64_t count,
                  bool refused = false) {
    const auto first = weights.begin() + static_cast<std::ptrdiff_t>(offset);
    const bool corrupt = corrupt_last && offset + count == weights.size();
    const auto end = first + static_cast<std::ptrdiff_t>(corrupt ? 0 : count);
    auto reply = from(server_node(0),
                      proto::Parameters{.sequence = sequence,
                                        .offset = offset,
                                        .count = count,
                                        .total = weights.size(),
                                        .held = {},
                                        .refused = refused},
                      tests::payload_of({first, end}));
    const std::lock_guard lock(mutex_);
    (offset >= keep_from ? kept_ : inbox_).push_back(std::move(reply));
  }

  std::mutex mutex_;  // guards inbox_, kept_ and woken_
  std::condition_variable changed_;
  std::deque<proto::Received> inbox_;
  std::deque<proto::Received> kept_;
  bool woken_ = false;
  std::size_t seeded_ = 0;
};

}  // namespace rubato::cluster
