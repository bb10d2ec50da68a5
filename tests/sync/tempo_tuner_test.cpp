// How tempo sets its rates: what moves which, between which bounds, and what it says.
#include "sync/tempo.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "sync/factory.hpp"
#include "sync/immediate_gate.hpp"
#include "sync/keeping_gate.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {
namespace {

enum class Told { Nothing, Keep, Restore };

Told told_by(Gate& gate, const Tuner& tuner) {
  const GateActions actions = gate.on_phase({}, tuner.phase());
  CHECK_FALSE((actions.keep && actions.restore));
  return actions.keep ? Told::Keep : actions.restore ? Told::Restore : Told::Nothing;
}

class TempoWorld {
 public:
  explicit TempoWorld(std::uint32_t workers) : commits_(workers, 3), told_(workers) {
    for (std::uint32_t i = 0; i < workers; ++i) tuner_.on_join({}, {i});
    tuner_.on_start(now_);
    drain();
  }
  // From now on a step and the round trip of a commit take so many seconds.
  void take(double step, double overhead) {
    step_ = Duration::from_seconds(step);
    overhead_ = Duration::from_seconds(overhead);
  }
  // The steps of the last `count` workers take so many times as long as those of the others.
  void slow(std::uint32_t count, double times) {
    slow_ = count;
    times_ = times;
  }
  // Brings the local rate to 1 by updates that never repeat each other, and forgets what was said.
  void settle() {
    rounds(100, {.own = -1, .during = 0});
    said_.clear();
  }
  // Every worker commits so many times, its updates lying so.
  void rounds(int count, Alignment alignment) { rounds(count, alignment, alignment); }
  // The same, with updates of the slow workers apart.
  void rounds(int count, Alignment of_quick, Alignment of_slow) {
    for (int i = 0; i < count; ++i) {
      for (std::uint32_t id = 0; id < commits_.size(); ++id) {
        const bool is_slow = id + slow_ >= commits_.size();
        tuner_.on_progress(now_, {id},
                           {.commits = ++commits_[id],
                            .step_time = is_slow ? step_ * times_ : step_,
                            .overhead = overhead_,
                            .alignment = is_slow ? of_slow : of_quick});
        drain();
      }
    }
  }
  // A loss that is measured when all have committed again, their updates saying nothing.
  void loss(double loss, std::optional<double> gap = {}) {
    rounds(1, {});
    tuner_.on_evaluation(now_, {.at = now_, .loss = loss, .accuracy = 0, .gap = gap});
    drain();
  }
  // Losses that neither fall nor stall, with such a gap.
  void gaps(int count, double gap) {
    for (int i = 0; i < count; ++i) loss(fall_ *= 0.98, gap);
  }
  double global() const { return last_.weight; }  // k
  double weight(std::uint32_t worker) const { return told_[worker].weight; }
  double local() const { return last_.local_rate; }
  double quick() const { return last_.quick_steps; }
  const std::string& said() const { return said_; }
  // What the shards are told to do since this was last asked.
  Told told() { return told_by(gate_, tuner_); }

 private:
  void drain() {
    while (const auto order = tuner_.poll_order())
      told_[order->worker.value] = last_ = order->directive;
    while (const auto decision = tuner_.poll_decision())
      said_ +=
          fmt::format("{} {:.3f}: {}\n", decision->quantity, decision->value, decision->reason);
  }

  TempoTuner tuner_{{}, 0};
  KeepingGate<ImmediateGate> gate_;
  Instant now_{1'000'000'000};
  std::vector<std::uint64_t> commits_;
  Duration step_, overhead_;
  std::uint32_t slow_ = 0;
  double times_ = 1;
  std::vector<Directive> told_;  // to each worker, last
  double fall_ = 1;
  Directive last_;
  std::string said_;
};

TEST_CASE("tempo: commits whenever it can, is applied at once, and trains on meanwhile") {
  CHECK(make_gate("tempo", {})->streams());
  const auto rule = make_commit_rule("tempo", {});
  rule->on_start({}, true);
  CHECK(rule->on_step_end(at_seconds(1)));
  CHECK(overlap("tempo", {}) == Overlap::UnlessQuick);
  CHECK(averages("tempo"));
  CHECK(measures_alignment("tempo"));
  CHECK_FALSE(averages("asp"));
  CHECK_FALSE(measures_alignment("adsp"));
}

TEST_CASE("tempo: the global rate grows while the parameters are as good as their average") {
  TempoWorld world(8);
  CHECK(world.global() == 1);
  world.gaps(1, 0.03);
  CHECK(world.global() == doctest::Approx(1.2));
  world.gaps(2, -0.5);
  CHECK(world.global() == doctest::Approx(1.728));
  world.gaps(5, 0.08);  // neither quiet nor noisy
  CHECK(world.global() == doctest::Approx(1.728));
  world.gaps(2, 0.13);
  CHECK(world.global() == doctest::Approx(1.728 * 0.5625));
  world.gaps(20, 0.13);
  CHECK(world.global() == doctest::Approx(0.7).epsilon(0.06));  // not for ever
}

TEST_CASE("tempo: where no average is measured, the global rate stays") {
  TempoWorld world(8);
  for (const double loss : {1.0, 0.95, 0.9, 0.85}) world.loss(loss);
  CHECK(world.global() == 1);
}

TEST_CASE("tempo: few workers begin lower, and triple the rate while their updates are clear") {
  const Alignment clear{.own = -0.3, .during = 0}, noise{.own = 0.05, .during = 0.6};
  for (const auto& [workers, first] : {std::pair{1u, 0.125}, {2u, 0.25}, {6u, 0.75}, {8u, 1.0}})
    CHECK(TempoWorld(workers).global() == first);
  TempoWorld world(2);
  world.take(1, 0.1);
  world.rounds(20, clear);
  world.gaps(1, 0);
  CHECK(world.global() == doctest::Approx(0.75));
  world.gaps(1, 0.08);  // neither quiet nor noisy
  CHECK(world.global() == doctest::Approx(0.75));
  world.gaps(1, 0);
  CHECK(world.global() == doctest::Approx(2));  // half the way
  TempoWorld of_noise(2);
  of_noise.take(1, 0.1);
  of_noise.rounds(20, noise);  // `during` tells nothing: the way holds the update itself
  of_noise.gaps(1, 0);
  CHECK(of_noise.global() == doctest::Approx(0.3));
  of_noise.rounds(20, clear);
  of_noise.gaps(1, 0);
  CHECK(of_noise.global() == doctest::Approx(0.9));
  TempoWorld of_long(2);
  of_long.take(1, 4);
  of_long.rounds(20, {.own = 0, .during = 0.4});
  of_long.gaps(1, 0);
  CHECK(of_long.global() == doctest::Approx(0.75 / std::sqrt(2.2)).epsilon(0.06));
}

TEST_CASE("tempo: the rate of few workers triples no more once it was too high") {
  const Alignment clear{.own = -0.3, .during = 0};
  TempoWorld noisy(2);
  noisy.rounds(20, clear);
  noisy.gaps(20, 0.5);
  CHECK(noisy.global() == doctest::Approx(0.7 / 4).epsilon(0.06));
  noisy.gaps(1, 0);
  CHECK(noisy.global() == doctest::Approx(1.2 * 0.7 / 4).epsilon(0.06));
  TempoWorld risen(4);
  risen.rounds(20, clear);
  risen.loss(1, 0.08);
  risen.loss(2, 0.08);
  CHECK(risen.global() == doctest::Approx(0.25));
  risen.gaps(40, 0.08);  // new lows, so the cap is no longer in the way
  CHECK(risen.global() == doctest::Approx(0.25));
  risen.gaps(1, 0);
  CHECK(risen.global() == doctest::Approx(0.3));
}

TEST_CASE("tempo: where no average is measured, few workers begin at the whole rate") {
  TempoWorld world(2);
  CHECK(world.global() == 0.25);
  world.loss(1);
  CHECK(world.global() == 1);
}

TEST_CASE(
    "tempo: no commit moves the parameters farther than half the way to where its worker is") {
  for (const std::uint32_t workers : {1u, 2u, 5u, 100u}) {
    TempoWorld world(workers);
    world.gaps(20, 0);
    CHECK(world.global() == doctest::Approx(std::clamp(0.5 * workers, 2.0, 4.0)).epsilon(0.06));
  }
}

TEST_CASE("tempo: with momentum at the servers a commit weighs so much less") {
  TempoTuner tuner({}, 0, 0.9);
  for (std::uint32_t i = 0; i < 8; ++i) tuner.on_join({}, {i});
  tuner.on_start({});
  const auto order = tuner.poll_order();
  REQUIRE(order);
  CHECK(order->directive.weight == doctest::Approx(0.1));
}

TEST_CASE("tempo: it waits for commits of a step and a half, or a quarter where data are alike") {
  TempoWorld world(8);
  CHECK(world.quick() == 1.5);
  world.take(1, 1);
  world.rounds(3, {.own = -0.2, .during = 0.1});  // -0.35 each: not sure yet after one round
  CHECK(world.quick() == kQuickSteps);
  CHECK(world.global() ==
        doctest::Approx(1 / std::sqrt(1.3)).epsilon(0.06));  // commits overlap now
  world.rounds(2, {.own = 0, .during = 0.1});                // -0.15: in doubt it stays
  CHECK(world.quick() == kQuickSteps);
  world.rounds(1, {.own = 0.5, .during = 0.1});
  CHECK(world.quick() == 1.5);
  CHECK(world.global() == doctest::Approx(1).epsilon(0.06));
}

TEST_CASE("tempo: it waits for long commits from where data differ much until they are alike") {
  TempoWorld world(8);
  world.take(1, 20);
  world.rounds(3, {.own = 0.3, .during = 0.1});  // 0.15 each
  CHECK(world.quick() == 1.5);
  world.rounds(3, {.own = 0.6, .during = 0.1});
  CHECK(world.quick() == 30);
  CHECK(world.global() == doctest::Approx(1).epsilon(0.06));  // no commit is old any more
  world.rounds(3, {.own = 0.1, .during = 0.1});
  CHECK(world.quick() == 30);
  world.rounds(3, {.own = -0.3, .during = 0.1});
  CHECK(world.quick() == kQuickSteps);
}

TEST_CASE("tempo: workers that pull each their own way step no farther than they are heard") {
  TempoWorld world(10);
  world.settle();
  world.rounds(100, {.own = 0.9, .during = 0.1});
  CHECK(world.local() == doctest::Approx(0.1).epsilon(0.06));
  world.rounds(100, {.own = -0.1, .during = 0.1});
  CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
}

TEST_CASE("tempo: where commits take several steps, local steps are a fifth or more") {
  TempoWorld world(10);
  world.take(1, 4);
  world.rounds(100, {.own = 0.35, .during = 0.1});
  CHECK(world.local() == doctest::Approx(0.2).epsilon(0.06));
  world.take(1, 0.1);
  world.rounds(100, {.own = 0.9, .during = 0.1});
  CHECK(world.local() == doctest::Approx(0.1).epsilon(0.06));
}

TEST_CASE("tempo: a loss that does not fall raises no global rate") {
  TempoWorld world(8);
  world.loss(1, 0);
  CHECK(world.global() == doctest::Approx(1.2));
  world.loss(1, 0);
  world.loss(1.1, 0);
  CHECK(world.global() == doctest::Approx(1.2));
  world.loss(1.05, 0);  // it falls again
  CHECK(world.global() == doctest::Approx(1.44));
}

TEST_CASE("tempo: where data differ the average may be farther ahead of the parameters") {
  TempoWorld world(8);
  world.rounds(10, {.own = 0.6, .during = 0.1});
  world.gaps(1, 0.11);
  CHECK(world.global() == doctest::Approx(1.2));
  world.gaps(3, 0.29);
  CHECK(world.global() == doctest::Approx(1.2));
  world.gaps(1, 0.31);
  CHECK(world.global() == doctest::Approx(0.9));
}

TEST_CASE("tempo: updates that are noise raise no local rate, those against each other do") {
  TempoWorld world(8);
  world.rounds(20, {.own = -0.2, .during = 0.2});
  CHECK(world.local() == doctest::Approx(0.3));
  world.rounds(20, {.own = -0.4, .during = 0});
  CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
}

TEST_CASE("tempo: long commits that are noise raise no local rate, and the global one slowly") {
  TempoWorld world(8);
  world.take(1, 4);
  const Alignment noise{.own = -0.2, .during = 0.2}, progress{.own = -0.2, .during = 0.4};
  world.rounds(20, noise);
  CHECK(world.local() == doctest::Approx(0.3));
  const double first = 1 / std::sqrt(2.2);
  CHECK(world.global() == doctest::Approx(first).epsilon(0.06));
  world.gaps(3, 0);
  CHECK(world.global() == doctest::Approx(std::pow(1.05, 3) * first).epsilon(0.06));
  world.rounds(20, progress);
  CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
  world.gaps(3, 0);
  CHECK(world.global() == doctest::Approx(std::pow(1.05 * 1.2, 3) * first).epsilon(0.06));
}

TEST_CASE("tempo: slow workers count for more while their updates resemble each other more") {
  TempoWorld world(8);
  world.take(1, 0.1);
  world.slow(4, 4.3);  // with the commits they make a quarter of the steps
  const Alignment undone{.own = 0.4, .during = 0.2}, progress{.own = 0, .during = 0.2};
  const auto ten_rounds = [&](Alignment of_slow) {
    for (int i = 0; i < 10; ++i) {
      world.rounds(3, progress, of_slow);
      world.gaps(1, 0.08);
    }
  };
  ten_rounds(progress);
  CHECK(world.weight(0) == 1);
  CHECK(world.weight(7) == 1);
  ten_rounds(undone);  // a step counts as its worker's pace to the -1/2
  CHECK(world.weight(0) == doctest::Approx(2.5 / 3).epsilon(0.06));
  CHECK(world.weight(7) == doctest::Approx(5.0 / 3).epsilon(0.06));
  CHECK(4 * world.weight(0) + world.weight(7) == doctest::Approx(5).epsilon(0.02));
  ten_rounds(progress);
  CHECK(world.weight(0) == doctest::Approx(1).epsilon(0.06));
  CHECK(world.weight(7) == doctest::Approx(1).epsilon(0.06));
}

TEST_CASE("tempo: nor does a slow worker's commit go farther than half the way") {
  TempoWorld world(2);
  world.take(1, 0.1);
  world.slow(1, 100);
  world.gaps(20, 0);
  CHECK(world.weight(0) == doctest::Approx(2).epsilon(0.06));
  for (int i = 0; i < 10; ++i) {
    world.rounds(3, {.own = 0, .during = 0.2}, {.own = 0.4, .during = 0.2});
    world.gaps(1, 0.08);
  }
  CHECK(world.weight(0) == doctest::Approx(1.84).epsilon(0.06));
  CHECK(world.weight(1) == 2);  // not 8
}

TEST_CASE("tempo: reports without a new commit, and the first commits, count for nothing") {
  TempoTuner tuner({}, 0);
  tuner.on_join({}, {0});
  tuner.on_start({});
  while (tuner.poll_order()) continue;
  const Alignment far = {.own = 1, .during = 0};
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
  world.rounds(20, {.own = 0.6, .during = 0.5});
  CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
}

TEST_CASE("tempo: commits that are not waited for begin at a lower rate, the longer the lower") {
  const auto begins_at = [](double overhead) {
    TempoTuner tuner({}, 0);
    for (std::uint32_t i = 0; i < 8; ++i) tuner.on_join({}, {i});
    tuner.on_start({});
    tuner.on_progress({}, {0},
                      {.commits = 1,
                       .step_time = Duration::from_seconds(0.5),
                       .overhead = Duration::from_seconds(overhead)});
    std::optional<Tuner::Order> last;
    while (auto order = tuner.poll_order()) last = order;
    REQUIRE(last);
    return last->directive.weight;
  };
  CHECK(begins_at(0.74) == 1);
  CHECK(begins_at(0.76) == doctest::Approx(1 / std::sqrt(1 + 0.3 * 1.52)));
  CHECK(begins_at(2) == doctest::Approx(1 / std::sqrt(2.2)));
}

TEST_CASE("tempo: a rate at which the loss rose is left, and not come back to at once") {
  TempoWorld world(20);
  world.loss(2.3);
  world.gaps(12, 0);
  const double high = world.global();
  CHECK(high == 4);
  world.loss(1.2);  // the lowest was 0.98^12
  CHECK(world.global() == doctest::Approx(high / 2).epsilon(0.06));
  CHECK(world.local() == 0.05);
  for (int i = 0; i < 4; ++i) world.loss(0.9, 0);  // until then nothing is judged
  CHECK(world.global() <= high / 2 * 1.06);
  world.loss(std::numeric_limits<double>::quiet_NaN());
  CHECK(world.global() < high / 2);
}

TEST_CASE("tempo: a loss that stalls lowers both rates") {
  TempoWorld world(20);
  world.loss(1);
  world.settle();
  CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
  for (int i = 0; i < 12; ++i) world.loss(0.99, 0.08);
  CHECK(world.said().find("the loss stalls, at 0.99") != std::string::npos);
  CHECK(world.global() <= 0.71);
  world.rounds(100, {.own = -1, .during = 0});
  CHECK(world.local() <= 0.75);
}

TEST_CASE("tempo: local steps under which the loss rose are not made again until it falls anew") {
  TempoWorld world(20);
  world.loss(1);
  world.settle();
  CHECK(world.local() == doctest::Approx(1).epsilon(0.06));
  world.loss(3);
  CHECK(world.local() < 0.1);
  world.settle();
  CHECK(world.local() == doctest::Approx(0.5).epsilon(0.06));
  for (const double loss : {0.9, 0.8, 0.7}) world.loss(loss);
  world.settle();
  CHECK(world.local() == doctest::Approx(0.5 * 1.331).epsilon(0.06));
}

TEST_CASE("tempo: the shards remember the first parameters, and those of each new low") {
  TempoTuner tuner({}, 0);
  KeepingGate<ImmediateGate> gate;
  for (std::uint32_t id = 0; id < 4; ++id) tuner.on_join({}, {id});
  tuner.on_start({});
  CHECK(told_by(gate, tuner) == Told::Nothing);
  tuner.on_evaluation({}, {.at = {}, .loss = 2.3, .accuracy = 0});  // before any commit
  CHECK(told_by(gate, tuner) == Told::Keep);
  CHECK(told_by(gate, tuner) == Told::Nothing);

  TempoWorld world(4);
  for (const double loss : {2.3, 2.0, 1.9}) {
    world.loss(loss);
    CHECK(world.told() == Told::Keep);
  }
  world.loss(1.89);  // no lower than noise makes it
  CHECK(world.told() == Told::Nothing);
}

TEST_CASE("tempo: a loss that rose comes down by itself, or else the shards go back") {
  TempoWorld world(4);
  const auto losses = [&](int count, double loss) {
    Told last = Told::Nothing;
    for (int i = 0; i < count; ++i) {
      world.loss(loss);
      const Told now = world.told();
      if (now != Told::Nothing) last = now;
    }
    return last;
  };
  CHECK(losses(1, 1) == Told::Keep);
  CHECK(losses(2, 3) == Told::Nothing);  // the rates fall
  CHECK(losses(1, 0.9) == Told::Keep);
  CHECK(losses(5, 3) == Told::Nothing);
  SUBCASE("it rises again") {
    CHECK(losses(3, 3) == Told::Restore);
    CHECK(world.said().find("the lowest was 0.9: not above") != std::string::npos);
    CHECK(world.said().find("until it falls; back to the parameters of the last low") !=
          std::string::npos);
    CHECK(losses(4, 3) == Told::Nothing);  // what was under way then is not judged
  }
  SUBCASE("it stalls, higher than it was") {
    CHECK(losses(12, 1.2) == Told::Restore);
    CHECK(losses(12, 1.2) == Told::Nothing);  // once for each rise
  }
  SUBCASE("it comes down") {
    CHECK(losses(1, 0.8) == Told::Keep);
    CHECK(losses(12, 0.8) == Told::Nothing);
  }
}

TEST_CASE("tempo: a window that ends with a new low has not stalled, and nothing goes back") {
  TempoWorld world(1);
  for (const double loss : {1.0, 2.5, 1.22, 1.18, 1.13, 1.1, 1.1, 1.27, 1.36}) {
    world.loss(loss);
    CHECK(world.told() == (loss == 1 ? Told::Keep : Told::Nothing));
  }
  world.loss(0.9);
  CHECK(world.told() == Told::Keep);
}

TEST_CASE("tempo: a shard that missed orders does what came of all of them") {
  KeepingGate<ImmediateGate> gate;
  const auto hears = [&](std::uint32_t keeps, std::uint32_t restores) {
    return gate.on_phase({}, {.number = keeps * kKeepOrder + restores * kRestoreOrder});
  };
  CHECK(hears(3, 0).keep);
  CHECK_FALSE(hears(3, 0).keep);
  const auto both = hears(5, 2);
  CHECK(both.restore == 2);
  CHECK_FALSE(both.keep);
  CHECK(hears(6, 2).keep);
}

TEST_CASE("tempo: a loss is judged once a round, however often it is measured") {
  TempoTuner tuner({}, 0);
  for (std::uint32_t id = 0; id < 8; ++id) tuner.on_join({}, {id});
  tuner.on_start({});
  while (tuner.poll_decision()) {
  }
  std::uint64_t commits = 0;
  const auto decisions_of = [&](int evaluations, bool committed) {
    int said = 0;
    for (int i = 0; i < evaluations; ++i) {
      if (committed) ++commits;
      for (std::uint32_t id = 0; id < 8; ++id) tuner.on_progress({}, {id}, {.commits = commits});
      tuner.on_evaluation({}, {.at = {}, .loss = 1, .accuracy = 0});
      while (tuner.poll_decision()) ++said;
    }
    return said;
  };
  CHECK(decisions_of(100, false) == 0);  // nothing could have fallen
  CHECK(decisions_of(100, true) > 2);
}

TEST_CASE("tempo: a byte budget sets commits apart, as many as there are workers") {
  TempoTuner tuner({.bytes_per_second = 1000}, 500);
  tuner.on_join({}, {0});
  tuner.on_join({}, {1});
  CHECK_FALSE(tuner.poll_order());
  tuner.on_start({});
  const auto told = [&] {
    std::vector<double> seconds;
    while (const auto order = tuner.poll_order())
      seconds.push_back(order->directive.period.seconds());
    return seconds;
  };
  CHECK(told() == std::vector<double>{2, 2});  // up and down, of two workers
  tuner.on_join({}, {5});
  CHECK(told() == std::vector<double>{3, 3, 3});
  tuner.on_leave({}, {0});
  CHECK(told() == std::vector<double>{2, 2});

  const auto rule = make_commit_rule("tempo", {});
  rule->on_start({}, true);
  rule->on_directive({}, {.period = Duration::from_seconds(2)});
  CHECK(rule->on_step_end(at_seconds(1)));  // the first may go at once
  rule->on_commit_sent(at_seconds(1));
  CHECK_FALSE(rule->on_step_end(at_seconds(2.9)));
  CHECK(rule->on_step_end(at_seconds(3)));
}

TEST_CASE("tempo: every large change is a line that says what was seen") {
  TempoWorld world(8);
  CHECK(world.said() == "global rate x m 1.000: local rate 0.300: begin\n");
  world.rounds(5, {.own = -0.4, .during = 0.05});
  CHECK(world.said().find("to the way meanwhile") != std::string::npos);
}

TEST_CASE("tempo: who joins later is told the rates of the others") {
  TempoTuner tuner({}, 0);
  tuner.on_join({}, {0});
  CHECK_FALSE(tuner.poll_order());
  tuner.on_start({});
  for (std::uint64_t commits = 3; commits < 9; ++commits)
    tuner.on_progress({}, {0}, {.commits = commits, .alignment = {.own = -0.4}});
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
