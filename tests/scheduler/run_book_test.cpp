// RunBook: totals, curves that are thinned, and the record of a run.
#include "scheduler/run_book.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace rubato::scheduler::run_book_tests {
namespace {

constexpr WorkerId kZero{0}, kOne{1};

proto::Progress total(std::uint64_t steps, std::uint64_t commits, double compute = 0) {
  proto::Progress all;
  all.steps = steps;
  all.commits = commits;
  all.compute = Duration::from_seconds(compute);
  return all;
}

struct World {
  Roster roster;
  LossMerge losses{{}, roster};
  Exclusion exclusion{std::nullopt};
  Run run;
  RunBook book;

  explicit World(std::vector<std::string> order = {}) : roster(std::move(order)) {
    for (const char* name : {"a", "b"}) {
      roster.admit({.name = name, .incarnation = 1, .epoch = 1});
      losses.on_join();
      book.on_join();
    }
  }
  RunRecord record() const { return book.record(roster, run, losses, exclusion); }
};

TEST_CASE("run book: totals are the sum of all workers' last ones") {
  World world;
  world.book.on_progress(kZero, total(10, 2));
  world.book.on_progress(kOne, total(5, 1));
  world.book.on_progress(kZero, total(12, 3));
  CHECK(world.book.steps() == 17);
  CHECK(world.book.commits() == 4);
  CHECK(world.book.progress(kZero).steps == 12);
}

TEST_CASE("run book: totals only grow, and no faster than any worker trains") {
  World world;
  world.book.on_progress(kZero, total(10, 2));
  const Duration second = Duration::from_seconds(1);
  CHECK(world.book.is_possible(kZero, total(10, 2), second));
  CHECK_FALSE(world.book.is_possible(kZero, total(9, 2), second));
  CHECK_FALSE(world.book.is_possible(kZero, total(10, 1), second));
  CHECK(world.book.is_possible(kZero, total(11'000'000, 2), second));
  CHECK_FALSE(world.book.is_possible(kZero, total(11'000'001, 2), second));
  CHECK_FALSE(world.book.is_possible(kZero, total(10, ~std::uint64_t{0}), second));
}

TEST_CASE("run book: the lowest loss, and the last one in the record") {
  World world;
  CHECK(std::isinf(world.book.lowest_loss()));
  CHECK_FALSE(world.record().measured());
  for (const double loss : {3.0, 1.0, 2.0}) world.book.on_evaluation(1, loss, 0.5, {});
  CHECK(world.book.lowest_loss() == 1.0);
  CHECK(world.book.evaluations().size() == 3);
  CHECK(world.record().final_loss == 2.0);
}

TEST_CASE("run book: commit counts are thinned evenly, before evaluations are") {
  World world;
  const std::size_t many = 3 * kCommitCountsMax;
  for (std::size_t i = 0; i < many; ++i) world.book.on_evaluation(static_cast<double>(i), 1, 1, {});
  const RunRecord record = world.record();
  CHECK(record.evaluations.size() == many);
  CHECK(record.commit_counts.size() <= kCommitCountsMax);
  CHECK(record.commit_counts.size() >= kCommitCountsMax / 2);
  for (std::size_t i = 0; i < record.commit_counts.size(); ++i)
    CHECK(record.commit_counts[i].seconds == static_cast<double>(4 * i));
}

TEST_CASE("run book: commit counts of many lives are fewer, and stay even") {
  World world;
  std::size_t values = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    world.book.on_evaluation(static_cast<double>(i), 1, 1, {});
    world.roster.admit({.name = std::to_string(i), .incarnation = 1, .epoch = 1});
    world.losses.on_join();
    world.book.on_join();
  }
  const RunRecord record = world.record();
  REQUIRE(record.commit_counts.size() >= 32);
  const double step = record.commit_counts[1].seconds;
  for (std::size_t i = 0; i < record.commit_counts.size(); ++i) {
    values += record.commit_counts[i].commits.size();
    CHECK(record.commit_counts[i].seconds == step * static_cast<double>(i));
  }
  CHECK(values <= 256 * 1024);
}

TEST_CASE("run book: a run without an end keeps a bounded curve, its first and its newest point") {
  World world;
  for (int i = 0; i < 100'000; ++i) {
    world.book.on_evaluation(i, i == 12'345 ? 0.25 : 1, 1, {});
    const auto& kept = world.book.evaluations();
    if (kept.size() > RunBook::kEvaluationsMax || kept.back().seconds != i ||
        kept.front().seconds != 0)
      FAIL("at evaluation " << i << ": " << kept.size() << " are kept");
  }
  const auto& kept = world.book.evaluations();
  CHECK(kept.size() > RunBook::kEvaluationsMax / 2);
  const double step = kept[1].seconds;
  for (std::size_t i = 0; i + 1 < kept.size(); ++i)
    CHECK(kept[i].seconds == step * static_cast<double>(i));
  CHECK(world.book.lowest_loss() == 0.25);
}

TEST_CASE("run book: workers and their commit counts stand in the order of the options") {
  World world({"b", "a"});
  world.book.on_progress(kZero, total(10, 2));
  world.book.on_progress(kOne, total(5, 1));
  world.book.on_evaluation(1, 1, 1, {});
  world.roster.remove(kZero, Life::Left, Instant{}, 10);
  const RunRecord record = world.record();
  REQUIRE(record.workers.size() == 2);
  CHECK(record.workers[0].id == "b");
  CHECK(record.workers[0].fate == "member");
  CHECK(record.workers[1].id == "a");
  CHECK(record.workers[1].number == 0);
  CHECK(record.workers[1].fate == "left");
  REQUIRE(record.commit_counts.size() == 1);
  CHECK(record.commit_counts[0].commits == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("run book: heterogeneity is the mean speed over the lowest") {
  World world;
  world.book.on_progress(kZero, total(10, 1, 10));  // a step a second
  world.book.on_progress(kOne, total(30, 1, 10));   // three
  CHECK(world.record().heterogeneity == doctest::Approx(2.0));
  CHECK(World().record().heterogeneity == 0);
}

}  // namespace
}  // namespace rubato::scheduler::run_book_tests
