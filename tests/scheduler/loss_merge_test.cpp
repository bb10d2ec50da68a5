// LossMerge: one loss of what all workers measure, and what does not count in it.
#include "scheduler/loss_merge.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace rubato::scheduler::loss_merge_tests {
namespace {

constexpr WorkerId kZero{0}, kOne{1}, kTwo{2};

proto::Evaluation measured(std::uint64_t samples, double loss, double accuracy = 0.5) {
  proto::Evaluation all;
  all.samples = samples;
  all.loss = loss;
  all.accuracy = accuracy;
  return all;
}

proto::Progress trained(std::uint64_t steps, std::uint64_t samples, double loss) {
  proto::Progress all;
  all.steps = steps;
  all.loss_samples = samples;
  all.loss = loss;
  return all;
}

// Three members, "a", "b" and "c".
struct World {
  Roster roster{{}};
  LossMerge losses;

  explicit World(LossMerge::Options options = {.watch = true})
      : losses(std::move(options), roster) {
    for (const char* name : {"a", "b", "c"}) join(name);
  }
  WorkerId join(const std::string& name) {
    losses.on_join();
    return roster.admit({.name = name, .incarnation = 1, .epoch = 1});
  }
  std::string lines() {
    std::string all;
    while (auto line = losses.poll_line()) all += *line + "\n";
    return all;
  }
};

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST_CASE("loss merge: the mean of all workers' own, weighted by samples") {
  World world;
  CHECK_FALSE(world.losses.evaluations());
  world.losses.on_evaluation(kZero, measured(100, 1.0, 0.8));
  world.losses.on_evaluation(kOne, measured(100, 2.0, 0.6));
  world.losses.on_evaluation(kTwo, measured(0, 9.0));  // it measured nothing
  const auto merged = world.losses.evaluations();
  REQUIRE(merged);
  CHECK(merged->loss == doctest::Approx(1.5));
  CHECK(merged->accuracy == doctest::Approx(0.7));
  CHECK_FALSE(world.losses.evaluations());  // nobody has evaluated since
  world.losses.on_evaluation(kOne, measured(300, 3.0, 0.6));
  CHECK(world.losses.evaluations()->loss == doctest::Approx((100.0 * 1 + 100.0 * 3) / 200));
  CHECK(has(world.lines(), "worker 1 'b' says that it has held out 300 samples: 100 count"));
}

TEST_CASE("loss merge: a worker that is away keeps its last figures, and a line says so once") {
  World world;
  world.losses.on_evaluation(kZero, measured(100, 1.0));
  world.losses.on_evaluation(kOne, measured(100, 3.0));
  world.roster.remove(kOne, Life::Lost, Instant{}, 0);
  CHECK(world.losses.evaluations()->loss == doctest::Approx(2.0));
  CHECK(has(world.lines(), "1 of 2 workers is away: evaluations keep the last figures"));
  world.losses.on_evaluation(kZero, measured(100, 1.0));
  CHECK(world.losses.evaluations());
  CHECK(world.lines().empty());
  // A later life of its name takes their place.
  const WorkerId again = world.join("b");
  world.losses.on_evaluation(again, measured(100, 5.0));
  CHECK(world.losses.evaluations()->loss == doctest::Approx(3.0));
}

TEST_CASE("loss merge: the figures of a worker that was set aside do not count") {
  World world;
  world.losses.on_evaluation(kZero, measured(100, 1.0));
  world.losses.on_evaluation(kOne, measured(100, 3.0));
  world.roster.remove(kOne, Life::Aside, Instant{}, 0);
  CHECK(world.losses.evaluations()->loss == doctest::Approx(1.0));
}

TEST_CASE("loss merge: figures that are no number, or far above the usual, are left out") {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double absurd : {infinite, std::nan(""), -1.0, 1e6}) {
    CAPTURE(absurd);
    World world;
    world.losses.on_evaluation(kZero, measured(100, 1.0));
    world.losses.on_evaluation(kOne, measured(100, 2.0));
    world.losses.on_evaluation(kTwo, measured(100, absurd));
    CHECK(world.losses.evaluations()->loss == doctest::Approx(1.5));
    CHECK(has(world.lines(), "worker 2 'c' reports a loss of"));
  }
}

TEST_CASE("loss merge: the gap is the median of theirs, so that nobody alone moves it far") {
  World world;
  const auto with_gap = [](double gap) {
    proto::Evaluation all = measured(100, 1.0);
    all.gap = gap;
    return all;
  };
  world.losses.on_evaluation(kZero, measured(100, 1.0));
  CHECK_FALSE(world.losses.evaluations()->gap);
  world.losses.on_evaluation(kZero, with_gap(0.03));
  world.losses.on_evaluation(kOne, with_gap(0.05));
  world.losses.on_evaluation(kTwo, with_gap(1e9));
  CHECK(world.losses.evaluations()->gap == 0.05);
}

TEST_CASE("loss merge: where nobody is watched, a run that diverges is seen") {
  World world({.watch = false});
  world.losses.on_evaluation(kZero, measured(100, 1.0));
  world.losses.on_evaluation(kOne, measured(100, 2.0));
  world.losses.on_evaluation(kTwo, measured(100, std::nan("")));
  CHECK(std::isnan(world.losses.evaluations()->loss));
}

TEST_CASE("loss merge: a worker that has described its data counts for no more than that") {
  World world({.watch = true, .held_out = {{"a", 50}}});
  world.losses.on_evaluation(kZero, measured(5000, 1.0));
  CHECK(world.losses.told(kZero).evaluation.samples == 50);
  CHECK(has(world.lines(), "5,000 samples: 50 count, for it has said how much data it has"));
}

TEST_CASE("loss merge: training losses since the last one, weighted by samples") {
  World world({.watch = true, .batch = 10});
  CHECK_FALSE(world.losses.training_loss());
  world.losses.on_progress(kZero, trained(10, 100, 1.0));
  world.losses.on_progress(kOne, trained(30, 300, 2.0));
  CHECK(world.losses.training_loss() == doctest::Approx(1.75));
  CHECK_FALSE(world.losses.training_loss());
  CHECK(world.losses.told(kOne).loss == 2.0);
  world.losses.on_progress(kZero, trained(20, 100, 4.0));
  world.losses.on_set_back();
  CHECK_FALSE(world.losses.training_loss());
}

TEST_CASE("loss merge: no more samples count than a worker's steps had") {
  World world({.watch = true, .batch = 10});
  world.losses.on_progress(kZero, trained(10, 1'000'000, 5.0));
  CHECK(world.losses.told(kZero).loss_samples == (10 + 64) * 10);
  CHECK(has(world.lines(), "reports the loss of 1000000 samples: 740 count"));
  world.losses.on_directive(kZero, 20);
  world.losses.on_progress(kZero, trained(11, 1'000'000, 5.0));
  CHECK(world.losses.told(kZero).loss_samples == (11 + 64) * 20);
  CHECK(world.lines().empty());  // said once
}

}  // namespace
}  // namespace rubato::scheduler::loss_merge_tests
