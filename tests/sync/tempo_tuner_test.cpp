// How tempo sets its rates: which cosine moves what, between which bounds, and what it says.
#include "sync/tempo_tuner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sync/factory.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {
namespace {

class TempoWorld {
 public:
  explicit TempoWorld(std::uint32_t workers) : commits_(workers, 3) {
    for (std::uint32_t i = 0; i < workers; ++i) tuner_.on_join({}, {i});
    tuner_.on_start(now_);
    drain();
  }
  // Brings the local rate to 1 by updates that never repeat each other, and forgets what was said.
  void settle() {
    rounds(100, {.own = -1, .during = 0, .before = -0.11});
    said_.clear();
  }
  // Every worker commits so many times, its updates lying so.
  void rounds(int count, Alignment alignment) {
    for (int i = 0; i < count; ++i) {
      for (std::uint32_t id = 0; id < commits_.size(); ++id) {
        tuner_.on_progress(now_, {id}, {.commits = ++commits_[id], .alignment = alignment});
        drain();
      }
    }
  }
  void loss(double loss) {
    tuner_.on_evaluation(now_, {.at = now_, .loss = loss, .accuracy = 0});
    drain();
  }
  double global() const { return last_.weight; }  // k
  double local() const { return last_.local_rate; }
  const std::string& said() const { return said_; }

 private:
  void drain() {
    while (const auto order = tuner_.poll_order()) last_ = order->directive;
    while (const auto decision = tuner_.poll_decision())
      said_ +=
          fmt::format("{} {:.3f}: {}\n", decision->quantity, decision->value, decision->reason);
  }

  TempoTuner tuner_;
  Instant now_{1'000'000'000};
  std::vector<std::uint64_t> commits_;
  Directive last_;
  std::string said_;
};

constexpr Alignment kSteady = {.own = -0.2, .during = 0, .before = -0.11};

TEST_CASE("tempo: commits whenever it can, is applied at once, and trains on meanwhile") {
  CHECK(make_gate("tempo", {})->streams());
  const auto rule = make_commit_rule("tempo", {});
  rule->on_start({});
  CHECK(rule->on_step_end(at_seconds(1)));
  CHECK(overlap("tempo", {}) == Overlap::UnlessQuick);
  CHECK(averages("tempo"));
  CHECK(measures_alignment("tempo"));
  CHECK_FALSE(averages("asp"));
  CHECK_FALSE(measures_alignment("adsp"));
}

TEST_CASE("tempo: the global rate grows while updates still point ahead, by so much a round") {
  for (const std::uint32_t workers : {4u, 8u, 50u}) {
    TempoWorld world(workers);
    CHECK(world.local() == 1.0 / workers);
    world.settle();
    CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
    const double before = world.global();
    world.rounds(5, {.own = -0.2, .during = 0, .before = 0.14});
    // 0.5 x (0.14 + 0.11) a round; told at every twentieth.
    CHECK(std::log(world.global() / before) == doctest::Approx(0.625).epsilon(0.11));
  }
}

TEST_CASE(
    "tempo: no commit moves the parameters farther than half the way to where its worker is") {
  for (const std::uint32_t workers : {1u, 2u, 5u, 100u}) {
    TempoWorld world(workers);
    world.rounds(100, {.own = -0.2, .during = 0, .before = 0.5});
    CHECK(world.global() == doctest::Approx(std::clamp(0.5 * workers, 1.0, 8.0)).epsilon(0.06));
  }
}

TEST_CASE("tempo: it falls when they point back, and stays where they should be") {
  TempoWorld world(4);
  world.settle();
  const double before = world.global();
  world.rounds(5, {.own = -0.2, .during = 0, .before = -0.31});
  CHECK(std::log(world.global() / before) == doctest::Approx(-0.5).epsilon(0.11));
  const double fallen = world.global();
  world.rounds(100, kSteady);
  CHECK(world.global() == fallen);
}

TEST_CASE("tempo: workers that pull each their own way step no farther than they are heard") {
  TempoWorld world(10);
  world.settle();
  const double high = world.global();
  world.rounds(100, {.own = 0.9, .during = 0.1, .before = -0.11 * std::sqrt(0.1)});
  CHECK(world.local() == doctest::Approx(std::min(1.0, world.global()) / 10).epsilon(0.06));
  CHECK(world.global() > high);
  world.rounds(100, {.own = -0.1, .during = 0.1, .before = -0.11});
  CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
}

TEST_CASE("tempo: reports without a new commit, and the first commits, count for nothing") {
  TempoTuner tuner;
  tuner.on_join({}, {0});
  const Alignment far = {.own = 1, .during = 0, .before = -1};
  for (const std::uint64_t commits : {0u, 1u, 2u, 2u, 2u})
    tuner.on_progress({}, {0}, {.commits = commits, .alignment = far});
  CHECK_FALSE(tuner.poll_order());
  tuner.on_progress({}, {0}, {.commits = 3, .alignment = far});
  CHECK(tuner.poll_order());
  for (int again = 0; again < 5; ++again)
    tuner.on_progress({}, {0}, {.commits = 3, .alignment = far});
  CHECK_FALSE(tuner.poll_order());
}

TEST_CASE("tempo: updates that resemble the way of all are no drift, however alike") {
  TempoWorld world(4);
  world.rounds(20, {.own = 0.6, .during = 0.5, .before = 0});
  CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
}

TEST_CASE("tempo: commits that take many steps begin at a lower rate") {
  TempoTuner tuner;
  tuner.on_join({}, {0});
  tuner.on_start({});
  tuner.on_progress({}, {0},
                    {.commits = 1,
                     .step_time = Duration::from_seconds(0.5),
                     .overhead = Duration::from_seconds(2)});
  std::optional<Tuner::Order> last;
  while (auto order = tuner.poll_order()) last = order;
  REQUIRE(last);
  CHECK(last->directive.weight == doctest::Approx(0.5));
}

TEST_CASE("tempo: a rate at which the loss doubled is left, and not come back to at once") {
  TempoWorld world(20);
  world.loss(2.3);
  world.loss(0.8);
  world.settle();
  world.rounds(14, {.own = -0.2, .during = 0, .before = 0.1});
  const double high = world.global();
  CHECK(high > 3);
  world.loss(1.5);
  CHECK(world.global() == high);
  world.loss(1.7);
  CHECK(world.global() == doctest::Approx(high / 2).epsilon(0.06));
  CHECK(world.local() == 0.05);
  world.rounds(100, {.own = -0.2, .during = 0, .before = 0.5});
  CHECK(world.global() <= high / 2 * 1.06);
  for (int i = 0; i < 5; ++i) world.loss(0.9);  // until then nothing is judged
  world.loss(std::numeric_limits<double>::quiet_NaN());
  CHECK(world.global() < high / 2);
}

TEST_CASE("tempo: every large change is a line that says what was seen") {
  TempoWorld world(8);
  CHECK(world.said() == "global rate x m 1.000: local rate 0.125: begin at the least\n");
  world.settle();
  world.rounds(5, {.own = -0.2, .during = 0.05, .before = 0.1});
  CHECK(world.said().find("to the way before them") != std::string::npos);
}

TEST_CASE("tempo: who joins later is told the rates of the others") {
  TempoTuner tuner;
  tuner.on_join({}, {0});
  CHECK_FALSE(tuner.poll_order());
  for (std::uint64_t commits = 3; commits < 9; ++commits)
    tuner.on_progress({}, {0}, {.commits = commits, .alignment = {.before = -0.4}});
  std::optional<Tuner::Order> last;
  while (auto order = tuner.poll_order()) last = order;
  REQUIRE(last);
  tuner.on_join({}, {7});
  const auto order = tuner.poll_order();
  REQUIRE(order);
  CHECK(order->worker == WorkerId{7});
  CHECK(order->directive.weight == doctest::Approx(last->directive.weight).epsilon(0.06));
}

}  // namespace
}  // namespace rubato::sync
