// tests/scheduler/scheduler_world.hpp - one Scheduler whose servers, workers and evaluator are
// played by the test, and a tuner that writes down what it hears.
// Server i speaks from peer 10 + i, worker `name` from whatever peer the test says.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/scheduler.hpp"
#include "tests/server/sent.hpp"

namespace rubato::scheduler {

inline constexpr std::uint64_t kClusterId = 0xc1;
inline constexpr proto::PeerId kEvaluatorPeer = 5;

inline proto::PeerId server_peer(std::uint32_t index) {
  return 10 + index;
}

// What a NotingTuner heard, and what it is to say next.
struct TunerNotes {
  std::string heard;  // "join 0, start, progress 0 steps 3, ..."
  std::deque<sync::Tuner::Order> orders;
  std::deque<sync::Decision> decisions;
  std::optional<Instant> wakeup;
  sync::Phase phase;
};

class NotingTuner final : public sync::Tuner {
 public:
  explicit NotingTuner(TunerNotes& notes) : notes_(notes) {}
  void on_start(Instant) override { note("start"); }
  void on_join(Instant, WorkerId worker) override { note(fmt::format("join {}", worker.value)); }
  void on_leave(Instant, WorkerId worker) override { note(fmt::format("leave {}", worker.value)); }
  void on_progress(Instant, WorkerId worker, const sync::WorkerProgress& p) override {
    note(fmt::format("progress {} steps {} commits {}", worker.value, p.steps, p.commits));
  }
  void on_evaluation(Instant, const sync::EvaluationPoint& point) override {
    note(fmt::format("evaluation {} at {} s", point.loss, point.at.seconds()));
  }
  void on_wakeup(Instant) override {
    note("wakeup");
    notes_.wakeup.reset();
  }
  std::optional<Instant> poll_wakeup() const override { return notes_.wakeup; }
  std::optional<Order> poll_order() override { return take(notes_.orders); }
  std::optional<sync::Decision> poll_decision() override { return take(notes_.decisions); }
  const sync::Phase& phase() const override { return notes_.phase; }

 private:
  void note(const std::string& text) { notes_.heard += (notes_.heard.empty() ? "" : ", ") + text; }
  template <class T>
  static std::optional<T> take(std::deque<T>& queue) {
    if (queue.empty()) return std::nullopt;
    std::optional<T> first(std::move(queue.front()));
    queue.pop_front();
    return first;
  }
  TunerNotes& notes_;
};

// A worker as the test plays it.
struct PlayedWorker {
  std::uint32_t index;
  std::string name;
  Incarnation incarnation;
  proto::PeerId peer;
};

inline PlayedWorker played(std::uint32_t index) {
  return {index, fmt::format("edge-{}", index), 900 + index, 100 + index};
}
inline const PlayedWorker kZero = played(0), kOne = played(1), kTwo = played(2);
inline const Duration kSecond = Duration::from_seconds(1);

// Two servers, two workers, ten parameters.
inline SchedulerOptions some_options(std::uint32_t servers = 2, std::uint32_t workers = 2) {
  SchedulerOptions options;
  options.cluster = kClusterId;
  options.incarnation = 1;
  options.parameters = 10;
  options.servers = servers;
  options.workers = workers;
  options.sync = "adsp";
  options.seed = 3;
  return options;
}

class SchedulerWorld {
 public:
  TunerNotes tuner;
  Instant now{1'000'000'000};
  Scheduler scheduler;
  bool keeps = true;  // servers have a directory for snapshots

  explicit SchedulerWorld(const SchedulerOptions& options = some_options())
      : scheduler(options, std::make_unique<NotingTuner>(tuner)), servers_(options.servers) {}

  void hear(proto::PeerId from, proto::NodeId sender, Incarnation incarnation, proto::Body body) {
    scheduler.on_message(now, from,
                         {.cluster = kClusterId,
                          .sender = sender,
                          .incarnation = incarnation,
                          .body = std::move(body),
                          .payload = {}});
  }
  // A heartbeat tells a clock, this one if the test has none.
  void from_server(std::uint32_t index, proto::Body body) {
    if (auto* beat = std::get_if<proto::Heartbeat>(&body); beat && beat->clock == Instant{})
      beat->clock = now;
    hear(server_peer(index), {proto::Role::Server, index}, 70 + index, std::move(body));
  }
  void from_worker(const PlayedWorker& worker, proto::Body body) {
    hear(worker.peer, {proto::Role::Worker, worker.index}, worker.incarnation, std::move(body));
  }
  // Its first word is Hello, whatever the test says first.
  void from_evaluator(proto::Body body) {
    if (!std::exchange(evaluator_, true) && !std::holds_alternative<proto::Hello>(body))
      from_evaluator(proto::Hello{"evaluator", 10, ""});
    hear(kEvaluatorPeer, {proto::Role::Evaluator, 0}, 60, std::move(body));
  }
  void server_hello(std::uint32_t index) {
    proto::Hello hello{fmt::format("shard-{}", index), 10,
                       fmt::format("tcp://10.0.0.{}:5700", index)};
    hello.keeps = keeps;
    from_server(index, std::move(hello));
  }
  void worker_hello(const PlayedWorker& worker) {
    from_worker(worker, proto::Hello{worker.name, 10, ""});
  }
  // Server `index` puts the newest list it was sent into force. Requires: collect() saw it.
  void ack(std::uint32_t index) { from_server(index, proto::MembersAck{servers_[index], now}); }

  // All servers and the first `workers` workers, up to Start.
  void start(std::uint32_t workers = 2) {
    for (std::uint32_t i = 0; i < servers_.size(); ++i) server_hello(i);
    for (std::uint32_t i = 0; i < workers; ++i) worker_hello(played(i));
    collect();
    for (std::uint32_t i = 0; i < servers_.size(); ++i) ack(i);
    collect();
    tuner.heard.clear();
  }

  // Returns: what the scheduler wants sent.
  std::vector<proto::ToPeer> collect() {
    auto messages = tests::sent(scheduler);
    for (std::uint32_t i = 0; i < servers_.size(); ++i)
      for (const auto& list : tests::bodies<proto::Members>(messages, server_peer(i)))
        servers_[i] = list.epoch;
    return messages;
  }
  // Time passes; the servers and `alive` say that they are still there, every second and at the
  // end.
  void pass(Duration time, const std::vector<PlayedWorker>& alive) {
    for (const Instant end = now + time; now < end;) {
      now = std::min(now + Duration::from_seconds(1), end);
      for (std::uint32_t i = 0; i < servers_.size(); ++i) from_server(i, proto::Heartbeat{});
      for (const auto& worker : alive) from_worker(worker, proto::Progress{});
      scheduler.on_wakeup(now);
    }
  }
  // Time passes, and nobody says anything.
  void pass_in_silence(Duration time) {
    for (const Instant end = now + time; now < end;) {
      now = std::min(scheduler.poll_wakeup().value_or(end), end);
      scheduler.on_wakeup(now);
    }
  }
  std::string log() {
    std::string all;
    while (auto line = scheduler.poll_log()) all += line->text + "\n";
    return all;
  }

 private:
  std::vector<std::uint64_t> servers_;  // newest epoch sent to each
  bool evaluator_ = false;              // it has said something
};

template <class Body>
std::size_t count(const std::vector<proto::ToPeer>& messages, proto::PeerId to) {
  return tests::bodies<Body>(messages, to).size();
}

// The ids in the newest member list to `to`, "0 2"; "-" when there is none.
inline std::string newest_members(const std::vector<proto::ToPeer>& messages, proto::PeerId to) {
  const auto lists = tests::bodies<proto::Members>(messages, to);
  if (lists.empty()) return "-";
  std::string ids;
  for (const auto& member : lists.back().members)
    ids += fmt::format("{}{}", ids.empty() ? "" : " ", member.worker.value);
  return ids;
}

}  // namespace rubato::scheduler
