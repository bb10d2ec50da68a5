// What a worker tells its choice of codecs: how far the servers are and what bytes cost, but not
// how long a loss took.
#include <doctest/doctest.h>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using tests::bodies;

// A server that answers pings and loses or delays the rest, over a link that costs nothing.
class AutoWorld : public WorkerWorld {
 public:
  AutoWorld() : WorkerWorld(setup()) {}
  static WorldSetup setup() {
    WorldSetup setup;
    setup.parameters = setup.chunk = 1000;
    setup.auto_codecs = true;
    return setup;
  }
  // What was sent is on its way: the pings are answered after `latency`, and after 20 s the Probe
  // that asks what became of the rest, as `reply` says.
  void pings(Duration latency) {
    now = now + latency;
    for (const auto& probe : bodies<proto::Probe>(sent(), server_node(0)))
      hear(server_node(0),
           proto::ProbeReply{.sequence = probe.sequence, .missing_offsets = {}, .unknown = true});
  }
  void asked(proto::ProbeReply reply) {
    pass(kSecond * 20);
    const auto probes = bodies<proto::Probe>(sent(), server_node(0));
    REQUIRE(probes.size() == 1);
    reply.sequence = probes[0].sequence;
    reply.number = probes[0].number;
    hear(server_node(0), reply);
  }
  void commit_after_step() {
    step(1, 1, kSecond);
    commit();
  }
};

TEST_CASE("worker: automatic codecs ask how far the servers are, and follow what bytes cost") {
  WorldSetup setup;
  setup.parameters = 1000;
  setup.shards = 2;
  setup.chunk = 1000;
  setup.auto_codecs = true;
  WorkerWorld world(setup);
  world.join();
  const auto pull = world.sent();
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    const auto probes = bodies<proto::Probe>(pull, server_node(shard));
    REQUIRE(probes.size() == 1);
    proto::ProbeReply pong{.sequence = probes[0].sequence, .missing_offsets = {}, .unknown = true};
    world.now = world.now + Duration::from_ms(100);
    world.hear(server_node(shard), pong);
  }
  CHECK(world.sent().empty());  // that a ping is unknown repeats nothing
  world.now = world.now + kSecond;
  world.replies(1);
  world.load();
  world.step(1, 1, kSecond);
  world.commit();
  // 1 s for 4000 bytes down, and up as well by all one knows, beside a step of 1 s and 0.2 s.
  const auto line = world.core.poll_log();
  REQUIRE(line);
  CHECK(*line ==
        "codecs top-k/int8 instead of f32/f32: the pull told; 0.032 Mb/s up and 0.032 Mb/s down, "
        "1.2 s of a commit cost the same in any; costs 1.611 s instead of 3.2 s a commit");
  const auto sent = world.sent();
  CHECK(std::holds_alternative<proto::Probe>(sent.at(1).message.body));  // before the bytes
  const auto commit = bodies<proto::Commit>(sent, server_node(0)).at(0);
  CHECK(commit.codec == proto::PayloadCodec::TopK);
  CHECK(commit.reply_codec == proto::PayloadCodec::Int8);
}

TEST_CASE("worker: automatic codecs learn nothing from a pull of which something was lost") {
  for (const bool lost : {true, false}) {
    CAPTURE(lost);
    AutoWorld world;
    world.join();
    world.pings(Duration::from_ms(100));
    if (lost)
      world.asked({.sequence = 0, .missing_offsets = {}});
    else
      world.pass(kSecond * 20);
    world.reply(0, 1);
    world.load();
    world.commit_after_step();
    CHECK(world.core.poll_log().has_value() == !lost);
  }
}

TEST_CASE("worker: automatic codecs learn from slow commits, not from lost ones") {
  for (const bool lost : {true, false}) {
    CAPTURE(lost);
    AutoWorld world;
    world.join();
    world.pings(Duration::from_ms(100));
    world.reply(0, 1);
    world.load();
    bool changed = false;
    for (Sequence sequence = 2; sequence < 9; ++sequence) {
      world.commit_after_step();
      changed |= world.core.poll_log().has_value();
      world.pings(Duration::from_ms(100));
      // All of it came: only the answer took so long.
      world.asked({.sequence = 0, .missing_offsets = {}, .unknown = lost});
      world.reply(0, sequence);
      world.load();
    }
    CHECK(changed == !lost);
  }
}

// Eight parameters on two shards, in chunks of 4, as 16 bits each.
WorldSetup packing_setup() {
  WorldSetup setup;
  setup.parameters = 8;
  setup.shards = 2;
  setup.chunk = 4;
  setup.up = {proto::PayloadCodec::F16};
  return setup;
}

// The payload of a packed update that is all ones.
Update packed_ones() {
  constexpr std::uint32_t kTwoOnes = 0x3c003c00;
  return {.values = std::make_shared<Floats>(4, bits_as<float>(kTwoOnes)), .packed = true};
}

TEST_CASE("worker: an update that its device has packed is sent as it is") {
  for (const bool beside : {false, true}) {
    CAPTURE(beside);
    WorldSetup setup = packing_setup();
    if (beside) setup.overlap = sync::Overlap::Always;
    WorkerWorld world(setup);
    world.get_ready();
    world.step();
    const train::Packing packing = world.core.packing(world.now);
    CHECK(packing.runs.size() == 2);
    CHECK(world.core.next_action() == Action::Commit);
    CHECK(world.sent().empty());
    if (beside) {
      world.core.on_taking(world.now);
      world.step();  // belongs to the next commit
    }
    world.core.on_commit(world.now, packed_ones());
    CHECK(world.rule.heard == "sent");
    const auto sent = world.sent();
    for (std::uint32_t shard = 0; shard < 2; ++shard) {
      const auto commits = bodies<proto::Commit>(sent, server_node(shard));
      REQUIRE(commits.size() == 1);
      CHECK(commits[0].codec == proto::PayloadCodec::F16);
      CHECK(commits[0].steps == 1);
      CHECK_FALSE(commits[0].discard);
    }
    std::vector<float> values(4);
    for (const auto& out : sent)
      if (std::holds_alternative<proto::Commit>(out.message.body)) {
        REQUIRE(proto::decompress(proto::PayloadCodec::F16, out.message.payload.bytes(), values));
        CHECK(values == std::vector<float>(4, 1.0f));
      }
  }
}

TEST_CASE("worker: replies to packed updates come into one vector, which the worker keeps") {
  WorkerWorld world(packing_setup());
  world.get_ready();
  CHECK(world.core.release_parameters());  // the pull's
  const float* memory = nullptr;
  for (Sequence sequence = 2; sequence < 6; ++sequence) {
    world.step();
    world.core.packing(world.now);
    world.core.on_commit(world.now, packed_ones());
    world.sent();
    world.replies(sequence, static_cast<float>(sequence));
    CHECK(world.core.parameters()[7] == static_cast<float>(sequence));
    if (memory) CHECK(world.core.parameters().data() == memory);
    memory = world.core.parameters().data();
    world.load();
    CHECK_FALSE(world.core.release_parameters());
  }
}

TEST_CASE("worker: an update that is broken was not packed, and is discarded by all") {
  WorkerWorld world(packing_setup());
  world.get_ready();
  world.step();
  CHECK(world.core.packing(world.now).runs.size() == 2);
  world.core.on_commit(world.now, {.values = std::make_shared<Floats>(8), .finite = false});
  const auto commits = bodies<proto::Commit>(world.sent(), server_node(0));
  REQUIRE(commits.size() == 1);
  CHECK(commits[0].codec == proto::PayloadCodec::F32);
  CHECK(commits[0].discard);
}

TEST_CASE("worker: a refused update leaves nothing on the device") {
  WorkerWorld world(packing_setup());
  world.get_ready();
  world.step();
  CHECK_FALSE(world.core.packing(world.now).forget);
  world.core.on_commit(world.now, packed_ones());
  world.sent();
  world.reply(0, 2, 0, {}, true);
  world.reply(1, 2);
  world.restart();
  for (const bool forget : {true, false}) {
    world.step();
    CHECK(world.core.packing(world.now).forget == forget);
    world.core.on_commit(world.now, packed_ones());
    world.sent();
    world.replies(forget ? 3 : 4);
    world.load();
  }
}

TEST_CASE("worker: a device packs nothing whose values the host needs") {
  const auto packs = [](const WorkerOptions& options) {
    RuleNotes rule;
    WorkerCore core(options, std::make_unique<NotingRule>(rule));
    WorkerWorld world(packing_setup());
    Instant now{1'000'000'000};
    const auto hear = [&](proto::NodeId sender, proto::Body body, proto::Payload payload = {}) {
      core.on_message(now, sender,
                      {.cluster = kCluster,
                       .sender = sender,
                       .incarnation = 1,
                       .body = std::move(body),
                       .payload = std::move(payload)});
    };
    core.on_start(now);
    hear(kSchedulerNode, proto::Welcome{.you = {proto::Role::Worker, 0},
                                        .parameters = 8,
                                        .range = {},
                                        .shards = world.shard_map()});
    hear(kSchedulerNode, proto::Start{});
    for (std::uint32_t shard = 0; shard < 2; ++shard)
      hear(server_node(shard), proto::Parameters{.sequence = 1, .count = 4, .total = 4, .held = {}},
           tests::payload_of(std::vector<float>(4)));
    REQUIRE(core.next_action() == Action::Load);
    core.on_loaded(now);
    core.on_step(now, {.spent = kSecond, .samples = 1});
    REQUIRE(core.next_action() == Action::Commit);
    return !core.packing(now).runs.empty();
  };
  const WorkerOptions usual = WorkerWorld::options(packing_setup());
  CHECK(packs(usual));
  WorkerOptions options = usual;
  options.alignment = true;
  CHECK_FALSE(packs(options));
  options = usual;
  options.residual = std::make_shared<Residual>(8);
  CHECK_FALSE(packs(options));
  options = usual;
  options.elastic = true;
  options.weight = 0.5;
  CHECK_FALSE(packs(options));
  options = usual;
  options.up.codec = proto::PayloadCodec::F32;
  CHECK_FALSE(packs(options));
}

}  // namespace
}  // namespace rubato::worker
