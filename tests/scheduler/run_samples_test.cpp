#include "scheduler/run_samples.hpp"

#include <doctest/doctest.h>

#include "sync/overhead_mean.hpp"
#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

TEST_CASE("samples: what is written is read again, with its notes") {
  const RunSample sample{.seconds = 12.25,
                         .worker = "pi-0",
                         .steps = 10,
                         .commits = 3,
                         .compute = 5.25,
                         .wait = 0.5,
                         .communicate = 0.125,
                         .round_trip = 0.2031,
                         .bytes_up = 2035040,
                         .bytes_down = 17};
  const std::string text =
      samples_header({"cluster file: /tmp/edge.toml"}) + sample_line(sample) + "13.0,pi-0,1";
  const auto read = parse_samples(text, "measured.csv");
  REQUIRE(read.has_value());
  CHECK(read->notes == std::vector<std::string>{"cluster file: /tmp/edge.toml"});
  REQUIRE(read->samples.size() == 1);  // the last line has no end
  const RunSample& again = read->samples.front();
  CHECK(again.seconds == sample.seconds);
  CHECK(again.worker == sample.worker);
  CHECK(again.steps == sample.steps);
  CHECK(again.commits == sample.commits);
  CHECK(again.compute == sample.compute);
  CHECK(again.wait == sample.wait);
  CHECK(again.communicate == sample.communicate);
  CHECK(again.round_trip == sample.round_trip);
  CHECK(again.bytes_up == sample.bytes_up);
  CHECK(again.bytes_down == sample.bytes_down);
}

TEST_CASE("samples: what commits cost follows from the moving mean that begins at 0") {
  Duration mean{};
  for (const double cost : {0.08, 0.04, 0.3, 0.001}) {
    const Duration before = mean;
    mean = sync::overhead_mean(mean, Duration::from_seconds(cost));
    CHECK(sync::overhead_of_last(before, mean, 1).seconds() == doctest::Approx(cost));
  }
  for (const std::uint64_t commits : {2, 3, 20, 5000}) {
    const Duration before = mean;
    for (std::uint64_t i = 0; i < commits; ++i)
      mean = sync::overhead_mean(mean, Duration::from_seconds(0.08));
    CHECK(sync::overhead_of_last(before, mean, commits).seconds() == doctest::Approx(0.08));
  }
  // A new process begins at 0.
  const Duration anew = sync::overhead_mean({}, Duration::from_seconds(0.05));
  CHECK(sync::overhead_of_last(mean, anew, 1).seconds() == doctest::Approx(0.05));
}

TEST_CASE("samples: each has what commits cost since the one before") {
  SchedulerWorld world;
  world.start();
  RunSampler sampler;
  proto::Progress told;
  double seconds = 0;
  const auto commits = [&](int count, double cost) {
    for (int i = 0; i < count; ++i) {
      ++told.commits;
      told.overhead = sync::overhead_mean(told.overhead, Duration::from_seconds(cost));
    }
    ++told.steps;
    world.now = world.now + kSecond;
    world.from_worker(kZero, told);
    const auto samples = sampler.poll(++seconds, world.scheduler);
    REQUIRE(samples.size() == 1);
    CHECK(samples[0].commits == static_cast<std::uint64_t>(count));
    return samples[0].round_trip;
  };
  CHECK(commits(1, 0.2) == doctest::Approx(0.2));
  CHECK(commits(0, 0) == 0);
  CHECK(commits(3, 0.4) == doctest::Approx(0.4));
}

TEST_CASE("samples: 16 workers write less than 1 MB an hour") {
  const RunSample long_one{.seconds = 3599.123,
                           .worker = "raspberry-pi-4-0",
                           .steps = 123,
                           .commits = 123,
                           .compute = 4.9876,
                           .wait = 0.12345,
                           .communicate = 0.12345,
                           .round_trip = 0.1234,
                           .bytes_up = 25000000,
                           .bytes_down = 25000000};
  CHECK(sample_line(long_one).size() * 16 * 3600 / 5 < 1'000'000);
}

TEST_CASE("samples: any name of a worker comes back, and is no formula in a spreadsheet") {
  for (const char* name :
       {"a,b", "say \"x\"", "\"", ",", "-a1", "=1+1", "+", " x ", "é", "12", "\"a\",1"}) {
    CAPTURE(name);
    RunSample sample;
    sample.worker = name;
    sample.steps = 2;
    const std::string line = sample_line(sample);
    CHECK(line.find(",=") == line.npos);
    const auto read = parse_samples(samples_header({}) + line, "measured.csv");
    REQUIRE(read.has_value());
    CHECK(read->samples.front().worker == name);
    CHECK(read->samples.front().steps == 2);
  }
}

TEST_CASE("samples: another file is refused with its line") {
  for (const std::string line :
       {"1,pi-0,1,1,1,1,1,1,1", "1,pi-0,1,1,1,1,1,1,1,1,1", "1,,1,1,1,1,1,1,1,1",
        "1,pi-0,-1,1,1,1,1,1,1,1", "1,pi-0,x,1,1,1,1,1,1,1"}) {
    CAPTURE(line);
    const auto read = parse_samples(samples_header({}) + line + "\n", "measured.csv");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().message.starts_with("measured.csv, line 2: no sample of a run"));
  }
  CHECK_FALSE(parse_samples("1,pi-0,1,1,1,1,1,1,1,1\n", "x").has_value());
}

}  // namespace
}  // namespace rubato::scheduler
