// Workers of the virtual cluster that are processes: tests/abi/loop.c carries out single orders.
#include "emulation/process_training.hpp"

#include <doctest/doctest.h>

#include "tests/abi/own_cluster.hpp"
#include "tests/temp_directory.hpp"

namespace rubato::emulation::process_training_tests {
namespace {

struct Processes {
  TempDirectory directory;
  std::string file = directory.write("own.toml", integration::OwnCluster{}.text());

  Result<std::unique_ptr<ProcessTraining>> start(std::vector<std::string> words,
                                                 Duration patience = kLoopPatience) const {
    words.insert(words.begin(), RUBATO_LOOP);
    ProcessTraining::Options options;
    options.file = file;
    options.sync = "bsp";
    options.threads = 2;
    options.workers = {"a-0", "a-1", "b"};
    options.begins = {true, false, true};
    options.patience = patience;
    return ProcessTraining::start(*LoopLauncher::of_program(std::move(words)), options);
  }
};

Result<train::BatchResult> step(ProcessTraining& training, std::uint32_t worker) {
  REQUIRE(
      training.begin_step(worker, {.batch = 4, .rate = 1}, {.began = 7, .takes = 2}).has_value());
  return training.end_step(worker);
}

TEST_CASE("own loops: steps, updates and evaluations of processes") {
  const Processes processes;
  auto training = processes.start({"measures"});
  REQUIRE_MESSAGE(training.has_value(), (training ? "" : training.error().message));
  ProcessTraining& all = **training;
  CHECK(all.table().parameters() == 21);
  CHECK(all.samples() == 200);  // of the two that begin
  CHECK(all.evaluates());
  REQUIRE(all.initial().size() == 21);
  CHECK(all.initial()[0] == 2);  // of a-0

  // Two at a time. The loss is that before the step; b has other initial values.
  REQUIRE(all.begin_step(0, {.batch = 4, .rate = 1}, {}).has_value());
  REQUIRE(all.begin_step(2, {.batch = 4, .rate = 1}, {}).has_value());
  const auto of_b = all.end_step(2), of_a = all.end_step(0);
  REQUIRE(of_a.has_value());
  REQUIRE(of_b.has_value());
  CHECK(of_a->samples == 4);
  CHECK(of_a->loss_sum != of_b->loss_sum);
  const double next = step(all, 0)->loss_sum;
  CHECK(next < of_a->loss_sum);
  CHECK(next > 0);

  // A worker that joins later has a process then.
  REQUIRE(all.restart(1).has_value());
  CHECK(step(all, 1).has_value());

  // Parameters are taken as they are, and evaluated in a process of their own.
  const auto taken = all.take_update(0, {.elastic = true});
  REQUIRE(taken.has_value());
  CHECK(taken->finite);
  CHECK((*taken->values)[0] < 2);
  all.begin_evaluation(std::vector<float>(21));
  const double zeros = all.end_evaluation()->loss;
  all.begin_evaluation(*taken->values);
  CHECK(all.end_evaluation()->loss > zeros);
}

TEST_CASE("own loops: a program that hangs is named, when it starts and in a step") {
  const Processes processes;
  const auto asleep = processes.start({"b=sleep"}, Duration::from_seconds(2));
  REQUIRE_FALSE(asleep.has_value());
  CHECK(asleep.error().code == ErrorCode::Timeout);
  CHECK(asleep.error().message ==
        "worker b: its program does not open a worker: no word of it for 2 s");

  auto training = processes.start({"b=hang"}, Duration::from_seconds(2));
  REQUIRE(training.has_value());
  for (int i = 0; i < 20; ++i) REQUIRE(step(**training, 2).has_value());
  const auto hung = step(**training, 2);
  REQUIRE_FALSE(hung.has_value());
  CHECK(hung.error().code == ErrorCode::Timeout);
  CHECK(hung.error().message ==
        "worker b: no answer for 2 s: a step, or an evaluation, takes too long");
}

TEST_CASE("own loops: one that leaves, and one that fails") {
  const Processes processes;
  auto training = processes.start({"a-0=early", "b=raise"});
  REQUIRE(training.has_value());
  for (const std::uint32_t worker : {0U, 2U})
    for (int i = 0; i < 20; ++i) REQUIRE(step(**training, worker).has_value());
  const auto left = step(**training, 0);
  REQUIRE_FALSE(left.has_value());
  CHECK(left.error().code == ErrorCode::Stopped);
  const auto failed = step(**training, 2);
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == ErrorCode::Gone);
  CHECK(failed.error().message ==
        "worker b: its program ended with exit code 3 before the run was over; it has printed "
        "nothing");
}

}  // namespace
}  // namespace rubato::emulation::process_training_tests
