// One threshold for all sync models: the first time that a moving mean of 5 crosses it.
#include "scheduler/stop_criterion.hpp"

#include <doctest/doctest.h>

#include "base/time.hpp"

#include <limits>
#include <optional>
#include <vector>

namespace rubato::scheduler {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StopOptions targets(std::optional<double> loss, std::optional<double> accuracy = {}) {
  return {.target_loss = loss, .target_accuracy = accuracy, .max_seconds = {}, .max_steps = {}};
}

StopOptions limits(std::optional<double> seconds, std::optional<std::uint64_t> steps) {
  return {.target_loss = {}, .target_accuracy = {}, .max_seconds = seconds, .max_steps = steps};
}

struct Seen {
  double loss;
  double accuracy = 0;
};

// The first second (0, 1, 2, ...) whose evaluation ends the run, or -1.
int reached_at(const StopOptions& options, const std::vector<Seen>& evaluations) {
  StopCriterion criterion(options);
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    const auto second = static_cast<double>(i);
    if (criterion.on_evaluation(second, evaluations[i].loss, evaluations[i].accuracy)) {
      CHECK(criterion.time_to_target() == second);
      return static_cast<int>(i);
    }
    CHECK_FALSE(criterion.time_to_target().has_value());
  }
  return -1;
}

TEST_CASE("stop criterion: the mean of the last five evaluations, not one lucky one") {
  const StopOptions options = targets(0.5);
  CHECK(reached_at(options, {{1}, {1}, {1}, {1}, {0.1}}) == -1);
  CHECK(reached_at(options, {{9}, {0.5}, {0.5}, {0.5}, {0.5}, {0.5}}) == 5);
  CHECK(reached_at(options, {{0.9}, {0.7}, {0.5}, {0.3}, {0.1}}) == 4);  // mean 0.5 exactly
}

TEST_CASE("stop criterion: fewer than five evaluations reach nothing") {
  CHECK(reached_at(targets(0.5), {{0}, {0}, {0}, {0}}) == -1);
  CHECK(reached_at(targets(0.5), {{0}, {0}, {0}, {0}, {0}}) == 4);
}

TEST_CASE("stop criterion: NaN never reaches a target, and is forgotten after five") {
  const StopOptions options = targets(0.5);
  CHECK(reached_at(options, std::vector<Seen>(20, {kNan})) == -1);
  CHECK(reached_at(options, {{0}, {0}, {0}, {0}, {kNan}, {0}, {0}, {0}, {0}, {0}}) == 9);
  CHECK(reached_at(targets({}, 0.5), std::vector<Seen>(9, {0, kNan})) == -1);
}

TEST_CASE("stop criterion: accuracy alone") {
  CHECK(reached_at(targets({}, 0.8),
                   {{9, 0.7}, {9, 0.75}, {9, 0.8}, {9, 0.85}, {9, 0.85}, {9, 0.8}}) == 5);
}

TEST_CASE("stop criterion: with both targets, both must hold at once") {
  const StopOptions both = targets(0.5, 0.8);
  std::vector<Seen> evaluations(5, {0.4, 0.7});
  CHECK(reached_at(both, evaluations) == -1);
  evaluations.assign(5, {0.6, 0.9});
  CHECK(reached_at(both, evaluations) == -1);
  evaluations.insert(evaluations.end(), 5, {0.4, 0.9});
  CHECK(reached_at(both, evaluations) == 7);  // (2 x 0.6 + 3 x 0.4) / 5 = 0.48
}

TEST_CASE("stop criterion: figures of classes, all that have a target, and none that is unknown") {
  StopOptions options;
  options.class_targets = {.recall = 0.8, .f1 = {}, .auc = 0.9};
  // What is said at the last of five evaluations.
  const auto told = [&](const ClassFigures& classes, const ClassFigures& first) {
    StopCriterion criterion(options);
    std::optional<std::string> reason = criterion.on_evaluation(0, 0.5, 0.999, first);
    for (int i = 1; i < 5; ++i) reason = criterion.on_evaluation(i, 0.5, 0.999, classes);
    return reason;
  };
  const auto always = [&](const ClassFigures& classes) { return told(classes, classes); };
  CHECK_FALSE(always({}));
  CHECK_FALSE(always({.recall = 0.9, .f1 = 1, .auc = 0.85}));
  CHECK_FALSE(always({.recall = 0.75, .f1 = 1, .auc = 1}));
  CHECK_FALSE(always({.recall = kNan, .f1 = 1, .auc = 1}));
  CHECK_FALSE(told({.recall = 1, .f1 = 0, .auc = 1}, {.recall = kNan, .f1 = 0, .auc = 1}));
  CHECK(told({.recall = 0.85, .f1 = 0, .auc = 0.95}, {.recall = 1, .f1 = 0, .auc = 1}) ==
        "target reached: mean loss 0.5000, accuracy 0.9990, lowest recall 0.8800, AUC 0.9600");
}

TEST_CASE("stop criterion: without a target no evaluation ends the run") {
  CHECK(reached_at(limits(10, {}), std::vector<Seen>(20, {0, 1})) == -1);
}

TEST_CASE("stop criterion: the time to target is that of the first crossing") {
  StopCriterion criterion(targets(1));
  for (int i = 0; i < 5; ++i) criterion.on_evaluation(i, 0.5, 0);
  CHECK_FALSE(criterion.on_evaluation(5, 0.5, 0).has_value());
  CHECK(criterion.time_to_target() == 4.0);
}

TEST_CASE("stop criterion: limits of time and steps, inclusive") {
  const StopCriterion criterion(limits(10, 100));
  CHECK_FALSE(criterion.on_progress(9.999, 99).has_value());
  CHECK(criterion.on_progress(10, 99) == "max_seconds 10 reached");
  CHECK(criterion.on_progress(0, 100) == "max_steps 100 reached");
  CHECK_FALSE(StopCriterion({}).on_progress(1e9, 1'000'000'000).has_value());
}

TEST_CASE("stop criterion: the smoothed loss is the mean of as many as there are, up to five") {
  StopCriterion criterion({});
  CHECK(criterion.smoothed_loss() == 0);
  criterion.on_evaluation(0, 10, 0);
  CHECK(criterion.smoothed_loss() == 10);
  for (const double loss : {4.0, 3.0, 2.0, 1.0, 0.0}) criterion.on_evaluation(0, loss, 0);
  CHECK(criterion.smoothed_loss() == 2);
}

}  // namespace
// The scheduler's alarm is set to whole nanoseconds; one that fell just short would ring for ever.
TEST_CASE("max_seconds with a fraction of a nanosecond is reached at the instant of its alarm") {
  for (const double most : {1111.111111111111, 0.1 + 0.2, 1e-9 / 3 + 7}) {
    const Instant alarm = Instant{} + Duration::from_seconds(most);
    StopCriterion criterion(
        {.target_loss = {}, .target_accuracy = {}, .max_seconds = most, .max_steps = {}});
    CHECK(criterion.on_progress(alarm.seconds(), 0).has_value());
    CHECK_FALSE(criterion.on_progress(alarm.seconds() - 1e-3, 0).has_value());
  }
}

}  // namespace rubato::scheduler
