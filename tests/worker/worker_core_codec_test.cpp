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

}  // namespace
}  // namespace rubato::worker
