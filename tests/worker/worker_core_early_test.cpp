// Steps that begin while the reply to their commit arrives, as the core sees them: when one may
// begin, what its time is counted as, and what becomes of it when the membership is lost.
#include <doctest/doctest.h>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using tests::bodies;

// 10 parameters on two shards, in chunks of 2; the first layer needs 3 of them.
WorldSetup layered(sync::Overlap overlap = sync::Overlap::Never, bool elastic = false) {
  WorldSetup setup;
  setup.parameters = 10;
  setup.shards = 2;
  setup.overlap = overlap;
  setup.elastic = elastic;
  setup.early_forward = {{3, 0.2}, {10, 0.1}};
  return setup;
}

struct LayeredCommit : WorkerWorld {
  explicit LayeredCommit(const WorldSetup& setup = layered()) : WorkerWorld(setup) {
    get_ready();
    step();
    commit();
    said = sent();
  }
  // A chunk of the reply; every element is `value`.
  void chunk(std::uint32_t shard, std::uint64_t offset, Duration held = {}, float value = 1) {
    const std::uint64_t count = std::min<std::uint64_t>(2, 5 - offset);
    hear(server_node(shard),
         proto::Parameters{
             .sequence = 2, .offset = offset, .count = count, .total = 5, .held = held},
         tests::payload_of(std::vector<float>(count, value)));
  }
  std::vector<proto::ToNode> said;
};

TEST_CASE("early: chunks go by need, ascending across the shards") {
  const LayeredCommit world;
  std::string order;
  for (const auto& out : world.said)
    if (const auto* commit = std::get_if<proto::Commit>(&out.message.body))
      order += fmt::format("{}:{} ", out.to.index, commit->offset);
  CHECK(order == "0:0 0:2 0:4 1:0 1:2 1:4 ");
}

TEST_CASE("early: a step begins with the first layer and not before") {
  LayeredCommit world;
  world.chunk(1, 0);
  world.chunk(0, 0);
  CHECK(world.core.arrived() == 2);
  CHECK(world.core.next_action() == Action::Wait);
  world.chunk(0, 2);
  CHECK(world.core.arrived() == 4);
  CHECK(world.core.next_action() == Action::TrainEarly);
  world.core.on_early(world.now);
  CHECK(world.core.early());
  CHECK(world.core.next_action() == Action::Wait);
  CHECK((*world.core.arriving())[3] == 1);
  world.chunk(0, 4);
  world.chunk(1, 2);
  world.chunk(1, 4);
  CHECK(world.core.arrived() == 10);
  CHECK(world.core.next_action() == Action::Wait);  // the step under way has loaded them
  CHECK(world.rule.heard == "sent, reply 0");
  world.core.on_step(world.now, {.spent = {}, .loss_sum = 0, .samples = 1, .rate = 1});
  CHECK_FALSE(world.core.early());
  CHECK(world.core.progress().steps == 2);
  CHECK(world.core.next_action() == Action::Commit);
}

TEST_CASE("early: a reply that comes in one is loaded as ever") {
  LayeredCommit world;
  world.reply(1, 2);
  world.reply(0, 2);
  CHECK(world.core.next_action() == Action::Load);
}

TEST_CASE("early: not on the first parameters, nor where training goes on, nor on an exchange") {
  WorkerWorld pulling(layered());
  pulling.join();
  pulling.reply(0, 1);
  CHECK(pulling.core.next_action() == Action::Wait);
  LayeredCommit overlapping(layered(sync::Overlap::Always));
  overlapping.reply(0, 2);
  CHECK(overlapping.core.next_action() == Action::Train);
  LayeredCommit elastic(layered(sync::Overlap::Never, true));
  elastic.reply(0, 2);
  CHECK(elastic.core.next_action() == Action::Wait);
}

TEST_CASE("early: every second is counted once, as computing, waiting or communicating") {
  LayeredCommit world;
  const Instant committed = world.now;
  const proto::Progress before = world.core.progress();
  world.now = committed + kSecond * 4;
  world.chunk(0, 0);
  world.chunk(0, 2);
  world.core.on_early(world.now);
  world.now = committed + kSecond * 6;
  world.chunk(0, 4, kSecond);
  world.now = committed + kSecond * 9;
  for (const std::uint64_t offset : {0, 2, 4}) world.chunk(1, offset, kSecond * 3);
  world.now = committed + kSecond * 20;
  world.core.on_step(world.now, {.spent = kSecond * 12, .loss_sum = 0, .samples = 1, .rate = 1});
  const proto::Progress& after = world.core.progress();
  CHECK(after.compute - before.compute == kSecond * 12);
  CHECK(after.wait - before.wait == kSecond * 3);
  CHECK(after.communicate - before.communicate == kSecond * (20 - 12 - 3));
  CHECK(after.step_time > before.step_time);
  CHECK(world.rule.heard == "sent, reply 6");  // its round trip, the gate's part not counted
}

TEST_CASE("early: the step under way is no longer wanted after a refusal, and all comes anew") {
  LayeredCommit world;
  world.chunk(0, 0);
  world.chunk(0, 2);
  world.core.on_early(world.now);
  world.hear(server_node(0),
             proto::Refusal{.code = proto::RefusalCode::NotMember, .message = "who are you"});
  CHECK_FALSE(world.core.early());
  CHECK(world.core.next_action() == Action::Wait);
  world.sent();
  world.welcome();
  world.hear(kSchedulerNode, proto::Start{});
  world.replies(3, 7);
  world.load();
  CHECK(world.core.parameters()[9] == 7);
  CHECK(world.core.next_action() == Action::Train);
}

TEST_CASE("early: the step under way is no longer wanted when its last chunk turns out corrupt") {
  LayeredCommit world;
  world.chunk(0, 0);
  world.chunk(0, 2);
  world.core.on_early(world.now);
  world.reply(1, 2);
  CHECK(world.core.early());
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 4, .count = 1, .total = 5, .held = {}});
  REQUIRE(world.core.failure());
  CHECK(world.core.failure()->code == ErrorCode::Corrupt);
  CHECK_FALSE(world.core.early());
}

// Two shards; its credit is that of one of them.
struct Narrow : WorkerWorld {
  explicit Narrow(std::uint64_t parameters) : WorkerWorld(of(parameters)) {
    get_ready();
    for (Sequence sequence = 2; sequence < 5; ++sequence) {
      step();
      commit();
      now = now + kSecond;
      sent();
      replies(sequence);
      load();
    }
    step();
    commit();
  }
  static WorldSetup of(std::uint64_t parameters) {
    WorldSetup setup = layered();
    setup.parameters = parameters;
    return setup;
  }
};

TEST_CASE("early: lost acknowledgements of a commit that is held keep no other server waiting") {
  Narrow world(16);  // four chunks each
  auto said = world.sent();
  CHECK(chunk_offsets(said, 0) == "0 2 4 6");
  CHECK(chunk_offsets(said, 1) == "0");
  world.pass(kSecond * 15);
  proto::ProbeReply held;
  held.sequence = 5;
  held.held = true;
  held.number = bodies<proto::Probe>(world.sent(), server_node(0)).at(0).number;
  world.hear(server_node(0), held);
  said = world.sent();
  CHECK(chunk_offsets(said, 0) == "");
  CHECK(chunk_offsets(said, 1) == "2 4 6");
}

TEST_CASE("early: a server that has not had its turn is not asked where the commit is") {
  Narrow world(40);  // ten chunks each
  const auto said = world.sent();
  CHECK(bodies<proto::Commit>(said, server_node(0)).size() == 4);
  CHECK(bodies<proto::Commit>(said, server_node(1)).empty());
  world.pass(kSecond * 15);
  const auto asked = world.sent();
  CHECK(bodies<proto::Probe>(asked, server_node(0)).size() == 1);
  CHECK(bodies<proto::Probe>(asked, server_node(1)).empty());
  for (int i = 0; i < 39 * 30; ++i) world.pass(kSecond * 0.5);
  REQUIRE(world.core.failure());  // and the one that is silent in its turn is given up
  CHECK(world.core.failure()->message.find(
            "server 0 at tcp://10.0.0.0:5700: no answer to commit") != std::string::npos);
}

}  // namespace
}  // namespace rubato::worker
