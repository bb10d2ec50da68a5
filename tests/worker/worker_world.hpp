// tests/worker/worker_world.hpp - one WorkerCore whose scheduler and servers are played by the
// test, and a commit rule that commits every n-th step and writes down what it hears.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/sent.hpp"
#include "worker/worker_core.hpp"

namespace rubato::worker {

inline constexpr std::uint64_t kCluster = 0xc1;
inline constexpr proto::NodeId kSchedulerNode{proto::Role::Scheduler, 0};

inline proto::NodeId server_node(std::uint32_t shard) {
  return {proto::Role::Server, shard};
}

struct RuleNotes {
  int every = 1;      // steps a commit
  std::string heard;  // "start, sent, reply 0.2, rate 4, ..."
};

class NotingRule final : public sync::CommitRule {
 public:
  explicit NotingRule(RuleNotes& notes) : notes_(notes) {}
  void on_start(Instant, bool) override { note("start"); }
  bool on_step_end(Instant) override { return ++steps_ >= notes_.every; }
  void on_commit_sent(Instant) override {
    steps_ = 0;
    note("sent");
  }
  void on_reply(Instant, Duration overhead) override {
    note(fmt::format("reply {}", overhead.seconds()));
  }
  void on_directive(Instant, const sync::Directive& directive) override {
    note(fmt::format("rate {}", directive.commit_rate));
  }

 private:
  void note(const std::string& text) { notes_.heard += (notes_.heard.empty() ? "" : ", ") + text; }
  RuleNotes& notes_;
  int steps_ = 0;
};

struct WorldSetup {
  std::uint64_t parameters = 5;
  std::uint32_t shards = 1;
  std::uint64_t chunk = 2;  // elements a message
  sync::Overlap overlap = sync::Overlap::Never;
  int every = 1;
  bool auto_codecs = false;
  bool elastic = false;
  bool lend = false;  // the update, as room for its answers
  std::vector<train::ForwardLayer> early_forward = {};
  proto::Compression up = {};
  std::shared_ptr<Residual> residual = {};
  std::optional<Duration> forsaken_after = {};
  bool looks = false;
  bool seeds = false;
};

using Action = WorkerCore::Action;

inline const Duration kSecond = Duration::from_seconds(1);

class WorkerWorld {
 public:
  Instant now{1'000'000'000};
  Incarnation life = 1;  // of whoever speaks to it
  RuleNotes rule;
  WorkerCore core;

  explicit WorkerWorld(const WorldSetup& setup = {})
      : rule{.every = setup.every, .heard = {}},
        core(options(setup), std::make_unique<NotingRule>(rule)),
        setup_(setup) {}

  static WorkerOptions options(const WorldSetup& setup) {
    WorkerOptions options;
    options.cluster = kCluster;
    options.incarnation = 500;
    options.name = "edge-0";
    options.parameters = setup.parameters;
    options.chunk_bytes = setup.chunk * sizeof(float);
    options.overlap = setup.overlap;
    options.auto_up = options.auto_down = setup.auto_codecs;
    options.elastic = setup.elastic;
    options.early_forward = setup.early_forward;
    options.up = setup.up;
    options.residual = setup.residual;
    if (setup.elastic) options.weight = 0.5;
    options.looks = setup.looks;
    options.seeds = setup.seeds;
    if (setup.forsaken_after) options.timing.forsaken_after = *setup.forsaken_after;
    return options;
  }
  proto::ShardMap shard_map() const {
    proto::ShardMap map;
    for (std::uint32_t i = 0; i < setup_.shards; ++i)
      map.shards.push_back({proto::shard_range(setup_.parameters, i, setup_.shards),
                            fmt::format("tcp://10.0.0.{}:5700", i)});
    return map;
  }

  void hear(proto::NodeId sender, proto::Body body, proto::Payload payload = {}) {
    core.on_message(now, sender,
                    {.cluster = kCluster,
                     .sender = sender,
                     .incarnation = life,
                     .body = std::move(body),
                     .payload = std::move(payload)});
  }
  void welcome(std::uint32_t index = 4) {
    hear(kSchedulerNode, proto::Welcome{.you = {proto::Role::Worker, index},
                                        .parameters = setup_.parameters,
                                        .range = {},
                                        .shards = shard_map()});
  }
  // The answer to a Hello that looks.
  void show_servers() {
    hear(kSchedulerNode, proto::Welcome{.you = {proto::Role::Worker, 0},
                                        .parameters = setup_.parameters,
                                        .range = {},
                                        .shards = shard_map(),
                                        .looks = true});
  }
  // Hello, Welcome, Start: the pull is under way.
  void join() {
    core.on_start(now);
    welcome();
    hear(kSchedulerNode, proto::Start{});
  }
  // A whole reply of one shard, every element `value`.
  void reply(std::uint32_t shard, Sequence sequence, float value = 0, Duration held = {},
             bool refused = false, std::uint32_t restores = 0) {
    const auto total = shard_map().shards[shard].range.count();
    proto::Parameters parameters{.sequence = sequence,
                                 .version = sequence * 10,
                                 .offset = 0,
                                 .count = total,
                                 .total = total,
                                 .held = held,
                                 .refused = refused,
                                 .restores = restores};
    hear(server_node(shard), parameters, tests::payload_of(std::vector<float>(total, value)));
  }
  void replies(Sequence sequence, float value = 0) {
    for (std::uint32_t shard = 0; shard < setup_.shards; ++shard) reply(shard, sequence, value);
  }
  void load() {
    REQUIRE(core.next_action() == Action::Load);
    core.on_loaded(now);
  }
  void restart() {
    REQUIRE(core.next_action() == Action::Restart);
    core.on_loaded(now);
  }
  // Joined, pulled, loaded: sequence 1 is used up and the worker is to train.
  void get_ready() {
    join();
    replies(1);
    load();
    sent();
    rule.heard.clear();
  }
  void step(double loss_sum = 1, int samples = 1, Duration spent = Duration::from_ms(100)) {
    REQUIRE(core.next_action() == Action::Train);
    now = now + spent;
    core.on_step(
        now,
        {.spent = spent, .loss_sum = loss_sum, .samples = samples, .rate = core.next_step().rate});
  }
  // The whole update is 0, 1, 2, ...
  void commit() {
    REQUIRE(core.next_action() == Action::Commit);
    commit_taken();
  }
  // The same update, after on_taking().
  void commit_taken() {
    auto update = std::make_shared<Floats>(setup_.parameters);
    for (std::size_t i = 0; i < update->size(); ++i) (*update)[i] = static_cast<float>(i);
    core.on_commit(now, {update, true, setup_.lend ? update : nullptr});
  }
  void pass(Duration time) {
    now = now + time;
    core.on_wakeup(now);
  }
  std::vector<proto::ToNode> sent() { return tests::sent(core); }

 private:
  WorldSetup setup_;
};

inline WorldSetup two_shards() {
  WorldSetup setup;
  setup.parameters = 10;
  setup.shards = 2;
  return setup;
}

// A commit of 5 elements to each of two shards, in chunks of 2, is under way.
struct Committed : WorkerWorld {
  Committed() : WorkerWorld(two_shards()) {
    get_ready();
    step();
    commit();
    sent();
  }
};

// The offsets of the commit's chunks in `messages` for `shard`: "0 2 4".
inline std::string chunk_offsets(const std::vector<proto::ToNode>& messages, std::uint32_t shard) {
  std::string text;
  for (const auto& commit : tests::bodies<proto::Commit>(messages, server_node(shard)))
    text += fmt::format("{}{}", text.empty() ? "" : " ", commit.offset);
  return text;
}

}  // namespace rubato::worker
