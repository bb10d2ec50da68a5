// What one worker counts for: the weight of its commits, its mini-batch, and elastic exchanges.
#include "worker/worker_core.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using tests::bodies;

// The weights of the commit's chunks in `messages`, each only once.
std::set<double> weights(const std::vector<proto::ToNode>& messages) {
  std::set<double> all;
  for (const auto& commit : bodies<proto::Commit>(messages, server_node(0)))
    all.insert(commit.weight);
  return all;
}

TEST_CASE("worker: a directive's weight is that of the next commits, not of one under way") {
  WorkerWorld world;
  world.get_ready();
  world.step();
  world.commit();
  CHECK(weights(world.sent()) == std::set{1.0});
  world.hear(kSchedulerNode, proto::Directive{.commit_rate = 1, .weight = 0.25});
  world.pass(Duration::from_seconds(15));
  world.hear(server_node(0),
             proto::ProbeReply{.sequence = 2, .missing_offsets = {}, .unknown = true, .number = 1});
  CHECK(weights(world.sent()) == std::set{1.0});
  world.reply(0, 2);
  world.load();
  for (int commit = 0; commit < 2; ++commit) {
    world.step();
    world.commit();
    CHECK(weights(world.sent()) == std::set{0.25});
    world.reply(0, 3 + static_cast<Sequence>(commit));
    world.load();
  }
}

TEST_CASE("worker: a commit weighs the more, the shorter its local steps were on average") {
  WorkerWorld world({.every = 2});
  world.get_ready();
  CHECK(world.core.next_step().rate == 1);
  world.step();
  world.hear(kSchedulerNode, proto::Directive{.commit_rate = 1, .weight = 1.5, .local_rate = 0.25});
  CHECK(world.core.next_step().rate == 0.25);
  world.step();
  world.commit();
  CHECK(weights(world.sent()) == std::set{1.5 * 2 / 1.25});
  world.reply(0, 2);
  world.load();
  world.step();
  world.step();
  world.commit();
  CHECK(weights(world.sent()) == std::set{6.0});
}

TEST_CASE("worker: a mini-batch changes with its weight between two commits, and is timed anew") {
  WorkerWorld world({.every = 2});
  world.get_ready();
  CHECK(world.core.next_step().batch == 0);
  world.step();
  world.hear(kSchedulerNode, proto::Directive{.commit_rate = 1, .weight = 1.5, .batch = 48});
  CHECK(world.core.next_step().batch == 0);  // the commit under way keeps its steps alike
  world.step();
  world.commit();
  CHECK(weights(world.sent()) == std::set{1.0});
  CHECK(world.core.next_step().batch == 48);
  CHECK(world.core.progress().batch == 0);  // of the steps that were timed
  world.reply(0, 2);
  world.load();
  world.step(1, 48, Duration::from_ms(150));
  CHECK(world.core.progress().batch == 48);
  CHECK(world.core.progress().step_time == Duration::from_ms(150));
  world.step(1, 48, Duration::from_ms(150));
  world.commit();
  CHECK(weights(world.sent()) == std::set{1.5});
}

TEST_CASE("worker: a mini-batch that is told before training begins holds from the first step") {
  WorkerWorld world;
  world.core.on_start(world.now);
  world.welcome();
  world.hear(kSchedulerNode, proto::Directive{.commit_rate = 1, .weight = 0.5, .batch = 16});
  CHECK(world.core.next_step().batch == 16);
}

// Zhang et al. 2015, Alg. 1: with d = a (X - W), W' = W + d and X' = X - d.
TEST_CASE("worker: an elastic commit is answered with W', and leaves the worker X - d") {
  WorkerWorld world({.parameters = 3, .elastic = true});
  world.get_ready();
  world.hear(kSchedulerNode, proto::Directive{.commit_rate = 1, .weight = 0.25});
  world.step();
  world.commit();  // X = 0, 1, 2
  for (const auto& commit : bodies<proto::Commit>(world.sent(), server_node(0))) {
    CHECK(commit.elastic);
    CHECK(commit.weight == 0.25);
  }
  // W was 4 everywhere: d = -1, -0.75, -0.5.
  const std::vector<float> answer = {3, 3.25f, 3.5f};
  const proto::Parameters reply{
      .sequence = 2, .version = 1, .offset = 0, .count = 3, .total = 3, .held = {}};
  world.hear(server_node(0), reply, tests::payload_of(answer));
  REQUIRE(world.core.next_action() == Action::Load);
  const auto left = world.core.parameters();
  REQUIRE(left.size() == 3);
  CHECK(left[0] == doctest::Approx(1));
  CHECK(left[1] == doctest::Approx(1.75));
  CHECK(left[2] == doctest::Approx(2.5));
}

TEST_CASE("worker: a refused elastic commit gives up X for the server's parameters") {
  WorkerWorld world({.parameters = 3, .elastic = true});
  world.get_ready();
  world.step();
  world.commit();
  world.reply(0, 2, 7, {}, true);
  REQUIRE(world.core.next_action() == Action::Restart);
  for (const float w : world.core.parameters()) CHECK(w == 7);
}

}  // namespace
}  // namespace rubato::worker
