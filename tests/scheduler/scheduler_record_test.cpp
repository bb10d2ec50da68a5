// The record of a run: every figure from what the workers and the evaluator last reported.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

proto::Progress report(std::uint64_t steps, std::uint64_t commits, double compute, double wait,
                       double communicate) {
  proto::Progress progress;
  progress.steps = steps;
  progress.commits = commits;
  progress.compute = Duration::from_seconds(compute);
  progress.wait = Duration::from_seconds(wait);
  progress.communicate = Duration::from_seconds(communicate);
  progress.late = Duration::from_seconds(compute / 5);
  progress.bytes_up = steps * 100;
  progress.bytes_down = steps * 10;
  return progress;
}

void evaluate(SchedulerWorld& world, double loss, double accuracy) {
  world.from_evaluator(
      proto::Evaluation{.age = {}, .loss = loss, .accuracy = accuracy, .version = 1});
}

TEST_CASE("record: totals, shares and heterogeneity of what was last reported") {
  SchedulerWorld world;
  world.start();
  world.from_worker(kZero, report(1, 1, 1, 0, 0));     // replaced by the next
  world.from_worker(kZero, report(40, 8, 10, 20, 2));  // 0.25 s a step
  world.from_worker(kOne, report(20, 5, 20, 0, 8));    // 1 s a step
  world.now = world.now + kSecond * 30;
  world.scheduler.stop(world.now, "enough");
  const RunRecord record = world.scheduler.record();

  CHECK(record.sync == "adsp");
  CHECK(record.seed == 3);
  CHECK(record.stop_reason == "enough");
  CHECK(record.seconds == 30);
  CHECK(record.steps == 60);
  CHECK(record.commits == 13);
  CHECK(record.bytes_up == 6000);
  CHECK(record.bytes_down == 600);
  CHECK(record.compute_share == doctest::Approx(30.0 / 60));
  CHECK(record.wait_share == doctest::Approx(20.0 / 60));
  CHECK(record.communicate_share == doctest::Approx(10.0 / 60));
  CHECK(record.heterogeneity == doctest::Approx(2.5));  // mean(4, 1) / 1 step a second
  CHECK_FALSE(record.time_to_target_seconds.has_value());

  REQUIRE(record.workers.size() == 2);
  CHECK(record.workers[0].id == "edge-0");
  CHECK(record.workers[0].steps == 40);
  CHECK(record.workers[0].commits == 8);
  CHECK(record.workers[0].compute.seconds() == 10);
  CHECK(record.workers[0].wait.seconds() == 20);
  CHECK(record.workers[0].communicate.seconds() == 2);
  CHECK(record.workers[0].late.seconds() == 2);
  CHECK(record.workers[0].late_share() == 0.25);  // 10 s instead of 8
  CHECK(record.workers[0].step_seconds == 0.25);
  CHECK(record.workers[1].step_seconds == 1);
}

TEST_CASE("record: every figure of a worker is in its row, in the sum, and in the status") {
  SchedulerWorld world;
  world.start();
  const auto figures = [](std::uint64_t word) {
    proto::Progress progress;
    progress.commits = 1000;  // more than were dropped
    for (const WorkerFigure& row : kWorkerFigures) set_word(progress, row, ++word);
    return progress;
  };
  world.from_worker(kZero, figures(100));
  world.from_worker(kOne, figures(300));
  const auto status = nlohmann::json::parse(world.scheduler.status(world.now));
  const RunRecord record = world.scheduler.record();
  std::uint64_t word = 100;
  for (const WorkerFigure& row : kWorkerFigures) {
    CAPTURE(row.name);
    ++word;
    CHECK(word_of(record.workers[0], row) == word);
    CHECK(word_of(record, row) == 2 * word + 200);
    const double told = status["workers"][0][row.name].get<double>();
    CHECK(told == doctest::Approx(static_cast<double>(word) * (row.time ? 1e-9 : 1)));
  }
}

TEST_CASE("record: a run in which nobody trained divides by nothing") {
  SchedulerWorld world;
  world.start();
  const RunRecord record = world.scheduler.record();
  CHECK(record.stop_reason == "still running");
  CHECK(record.compute_share == 0);
  CHECK(record.heterogeneity == 0);
  CHECK(record.final_loss == 0);
}

TEST_CASE("record: the curve, the commit counts beside it, and the decisions") {
  SchedulerWorld world;
  world.start();
  world.from_worker(kZero, report(10, 3, 1, 0, 0));
  world.from_worker(kOne, report(5, 2, 1, 0, 0));
  world.now = world.now + kSecond * 6;
  world.from_evaluator(
      proto::Evaluation{.age = kSecond * 2, .loss = 0.75, .accuracy = 0.5, .version = 5});
  world.tuner.decisions.push_back({.at = world.now, .value = 4, .reason = "a test"});
  evaluate(world, 0.5, 0.625);
  const RunRecord record = world.scheduler.record();

  REQUIRE(record.evaluations.size() == 2);
  CHECK(record.evaluations[0].seconds == 4);  // when the parameters were pulled
  CHECK(record.evaluations[0].steps == 15);
  CHECK(record.evaluations[0].commits == 5);
  CHECK(record.evaluations[0].loss == 0.75);
  CHECK(record.evaluations[0].accuracy == 0.5);
  CHECK(record.evaluations[1].seconds == 6);
  REQUIRE(record.commit_counts.size() == 2);
  CHECK(record.commit_counts[0].seconds == 4);
  CHECK(record.commit_counts[0].commits == std::vector<std::uint64_t>{3, 2});
  REQUIRE(record.decisions.size() == 1);
  CHECK(record.decisions[0].seconds == 6);
  CHECK(record.decisions[0].value == 4);
  CHECK(record.decisions[0].reason == "a test");
  CHECK(record.final_loss == 0.5);
  CHECK(record.final_accuracy == 0.625);
}

TEST_CASE("record: the lives of a worker that came back are one worker of the heterogeneity") {
  SchedulerWorld world;
  world.start();
  world.from_worker(kZero, report(40, 8, 10, 0, 0));  // 0.25 s a step
  world.from_worker(kOne, report(20, 5, 20, 0, 0));   // 1 s a step
  world.from_worker(kZero, proto::Leave{"bye"});
  PlayedWorker again = played(2);
  again.name = kZero.name;
  world.worker_hello(again);
  world.from_worker(again, report(20, 4, 5, 0, 0));
  const RunRecord record = world.scheduler.record();
  CHECK(record.workers.size() == 3);
  CHECK(record.heterogeneity == doctest::Approx(2.5));
}

TEST_CASE("record: workers are in the order that is wished, and so are their commit counts") {
  auto options = some_options(2, 2);
  options.order = {"edge-2", "edge-1", "edge-9"};  // edge-0 is not among them
  SchedulerWorld world(options);
  world.start();
  world.from_worker(kZero, report(1, 10, 1, 0, 0));
  world.from_worker(kOne, report(1, 11, 1, 0, 0));
  evaluate(world, 0.5, 0.5);
  world.worker_hello(kTwo);
  world.from_worker(kTwo, report(1, 12, 1, 0, 0));
  evaluate(world, 0.5, 0.5);
  world.from_worker(kOne, proto::Leave{"bye"});
  PlayedWorker again = played(3);
  again.name = kOne.name;
  world.worker_hello(again);
  const RunRecord record = world.scheduler.record();
  std::string ids;
  for (const auto& worker : record.workers) ids += worker.id + " ";
  CHECK(ids == "edge-2 edge-1 edge-0 edge-1 ");
  CHECK(record.workers[1].commits == 11);
  CHECK(record.workers[3].commits == 0);  // the later life
  REQUIRE(record.commit_counts.size() == 2);
  CHECK(record.commit_counts[0].commits == std::vector<std::uint64_t>{0, 11, 10, 0});
  CHECK(record.commit_counts[1].commits == std::vector<std::uint64_t>{12, 11, 10, 0});
  const auto status = nlohmann::json::parse(world.scheduler.status(world.now));
  ids.clear();
  for (const auto& worker : status["workers"]) ids += worker["name"].get<std::string>() + " ";
  CHECK(ids == "edge-2 edge-1 edge-0 ");
}

TEST_CASE("record: without an evaluator there is a loss and no accuracy") {
  auto options = some_options();
  options.evaluations = SchedulerOptions::Evaluations::Training;
  SchedulerWorld world(options);
  world.start();
  auto progress = report(1, 1, 1, 0, 0);
  progress.loss = 0.75;
  progress.loss_samples = 4;
  world.from_worker(kZero, progress);
  while (world.scheduler.poll_log()) {
  }
  world.now = world.now + options.evaluation_interval;
  world.scheduler.on_wakeup(world.now);
  const RunRecord record = world.scheduler.record();
  REQUIRE(record.measured());
  CHECK(record.final_loss == 0.75);
  CHECK(std::isnan(record.final_accuracy));
  const auto line = world.scheduler.poll_log();
  REQUIRE(line.has_value());
  CHECK(line->kind == SchedulerEvent::Kind::Evaluation);
  CHECK(line->text == "evaluation at 5.000 s: loss 0.750000 steps 1 commits 1");
}

TEST_CASE("record: where workers evaluate, their figures are merged by samples") {
  auto options = some_options();
  options.evaluations = SchedulerOptions::Evaluations::Workers;
  SchedulerWorld world(options);
  world.start();
  const auto tick = [&] {
    world.now = world.now + options.evaluation_interval;
    world.scheduler.on_wakeup(world.now);
  };
  tick();
  CHECK_FALSE(world.scheduler.record().measured());  // nobody has evaluated
  world.from_worker(kZero, proto::Evaluation{{}, 1.0, 0.5, 0, 100});
  world.from_worker(kOne, proto::Evaluation{{}, 0.2, 0.9, 0, 300});
  world.from_worker(kOne, proto::Evaluation{{}, 9, 9, 0, 0});  // of no samples: says nothing
  tick();
  tick();  // nothing new: no second point
  world.from_worker(kZero, proto::Evaluation{{}, 0.6, 0.7, 0, 100});
  tick();
  const RunRecord record = world.scheduler.record();
  REQUIRE(record.evaluations.size() == 2);
  CHECK(record.evaluations[0].loss == doctest::Approx(0.4));
  CHECK(record.evaluations[0].accuracy == doctest::Approx(0.8));
  CHECK(record.final_loss == doctest::Approx(0.3));
  CHECK(record.workers[0].held_out_samples == 100);
  CHECK(record.workers[0].held_out_accuracy == 0.7);
  world.from_worker(kOne, proto::Leave{"battery"});
  world.from_worker(kZero, proto::Evaluation{{}, 0.5, 0.75, 0, 100});
  world.log();
  tick();  // who is away keeps its figures: the data of the others are not easier for that
  CHECK(world.scheduler.record().final_accuracy == doctest::Approx(0.8625));
  CHECK(world.log().find("1 of 2 workers is away: evaluations keep the last figures") !=
        std::string::npos);
  const PlayedWorker later{2, kOne.name, 5000, 500};
  world.worker_hello(later);
  world.from_worker(kZero, proto::Evaluation{{}, 0.5, 0.75, 0, 100});
  tick();  // it has none of its own yet
  CHECK(world.scheduler.record().final_accuracy == doctest::Approx(0.8625));
  world.from_worker(later, proto::Evaluation{{}, 0.5, 0.95, 0, 100});
  tick();
  CHECK(world.scheduler.record().final_accuracy == doctest::Approx(0.85));
}

TEST_CASE("record: a worker that claims more samples than it has does not decide alone") {
  auto options = some_options(1, 3);
  options.evaluations = SchedulerOptions::Evaluations::Workers;
  options.watch = WatchOptions{};
  options.held_out = {{"edge-0", 100}, {"edge-1", 300}};  // edge-2 has not described its data
  SchedulerWorld world(options);
  world.start(3);
  world.log();
  const auto loss = [&](std::uint64_t claimed_by_one, std::uint64_t claimed_by_two) {
    world.from_worker(kZero, proto::Evaluation{{}, 1.0, 0.5, 0, 100});
    world.from_worker(kOne, proto::Evaluation{{}, 0.0, 0.5, 0, claimed_by_one});
    if (claimed_by_two > 0)
      world.from_worker(kTwo, proto::Evaluation{{}, 0.0, 0.5, 0, claimed_by_two});
    world.now = world.now + options.evaluation_interval;
    world.scheduler.on_wakeup(world.now);
    return world.scheduler.record().final_loss;
  };
  CHECK(loss(300, 0) == doctest::Approx(0.25));
  CHECK(world.log().find("held out") == std::string::npos);
  for (int repeat = 0; repeat < 2; ++repeat)
    CHECK(loss(1'000'000'000'000, 0) == doctest::Approx(0.25));
  CHECK(
      world.log().find("worker 1 'edge-1' says that it has held out 1,000,000,000,000 samples: 300 "
                       "count, for it has said how much data it has") != std::string::npos);
  CHECK(loss(300, 1'000'000'000'000) == doctest::Approx(0.125));
  CHECK(
      world.log().find("worker 2 'edge-2' says that it has held out 1,000,000,000,000 samples: 400 "
                       "count, as many as all others have") != std::string::npos);
  CHECK(loss(300, 1'000'000'000'000) == doctest::Approx(0.125));
  CHECK(world.log().find("held out") == std::string::npos);  // it was said
}

TEST_CASE("record: the R^2 of all workers' samples follows from their sums, not from their R^2") {
  auto options = some_options();
  options.evaluations = SchedulerOptions::Evaluations::Workers;
  options.task = Task::Regression;
  SchedulerWorld world(options);
  world.start();
  // Targets 0, 1 and 4, 5, 6 with errors 1, 0 and 2, 0, 1. The losses have weights, 3 and 2 of the
  // first samples and 1 of the others.
  world.from_worker(kZero, proto::Evaluation{.age = {},
                                             .loss = 3.0 / 2,
                                             .accuracy = -1,
                                             .samples = 2,
                                             .squared_error = 1.0 / 2,
                                             .target_mean = 0.5,
                                             .target_square = 0.5});
  world.from_worker(kOne, proto::Evaluation{.age = {},
                                            .loss = 9.0 / 3,
                                            .accuracy = -1.5,
                                            .samples = 3,
                                            .squared_error = 5.0 / 3,
                                            .target_mean = 5,
                                            .target_square = 77.0 / 3});
  world.now = world.now + options.evaluation_interval;
  world.scheduler.on_wakeup(world.now);
  const RunRecord record = world.scheduler.record();
  CHECK(record.final_loss == doctest::Approx(12.0 / 5));
  // Around their mean of 3.2 the five targets have squares of 10.24 + 4.84 + 0.64 + 3.24 + 7.84.
  CHECK(record.final_accuracy == doctest::Approx(1 - 6 / 26.8));
  CHECK(record.workers[1].held_out_accuracy == -1.5);
}

TEST_CASE("record: the commit counts of a long run are thinned evenly") {
  SchedulerWorld world;
  world.start();
  constexpr std::size_t kMany = 5 * kCommitCountsMax;
  for (std::size_t i = 1; i <= kMany; ++i) {
    world.from_worker(kZero, report(i, i, 1, 0, 0));
    world.now = world.now + kSecond;
    evaluate(world, 0.5, 0.5);
  }
  const RunRecord record = world.scheduler.record();
  CHECK(record.evaluations.size() == kMany);
  REQUIRE(record.commit_counts.size() == kMany / 8);
  for (std::size_t i = 0; i < record.commit_counts.size(); ++i) {
    REQUIRE(record.commit_counts[i].seconds == static_cast<double>(8 * i + 1));
    REQUIRE(record.commit_counts[i].commits == std::vector<std::uint64_t>{8 * i + 1, 0});
  }
}

TEST_CASE("record: the target ends the run, at the instant of the evaluation that reached it") {
  auto options = some_options();
  options.stop.target_loss = 0.5;
  SchedulerWorld world(options);
  world.start();
  for (int i = 0; i < 5; ++i) {
    CHECK_FALSE(world.scheduler.stopped().has_value());
    world.now = world.now + kSecond;
    world.from_evaluator(proto::Evaluation{
        .age = Duration::from_ms(500), .loss = 0.4, .accuracy = 0.9, .version = 1});
  }
  CHECK(world.scheduler.stopped() == "target reached: mean loss 0.4000, accuracy 0.9000");
  CHECK(world.scheduler.record().time_to_target_seconds == 4.5);
  CHECK(world.scheduler.record().seconds == 5);
}

TEST_CASE("record: evaluations before the start and after the end are not part of the run") {
  SchedulerWorld world;
  evaluate(world, 9, 0);
  world.start();
  evaluate(world, 2, 0);
  world.scheduler.stop(world.now, "enough");
  evaluate(world, 1, 0);
  CHECK(world.scheduler.record().evaluations.size() == 1);
  CHECK(world.scheduler.record().final_loss == 2);
}

}  // namespace
}  // namespace rubato::scheduler
