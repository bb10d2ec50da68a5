// Traces in the virtual cluster: links, steps and workers that change over time, and energy.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cluster/energy.hpp"
#include "tests/emulation/virtual_runs.hpp"

namespace rubato::emulation::trace_tests {
namespace {

using cluster::NodeTrace;
using cluster::ValueTrace;

Duration seconds(double s) {
  return Duration::from_seconds(s);
}

// When the steps of worker 0 end, in a run of which only the timing counts.
std::vector<double> timed_ends(const Run& run) {
  std::vector<double> ends;
  std::istringstream lines(run.log);
  for (std::string line; std::getline(lines, line);)
    if (line.find(" worker 0 step ") != line.npos) ends.push_back(std::stod(line));
  return ends;
}

void set_trace(cluster::WorkerGroup& group, NodeTrace trace) {
  group.traces = {std::make_shared<const NodeTrace>(std::move(trace))};
}

}  // namespace

TEST_CASE("trace: a step takes its time over the speed at its beginning") {
  auto config = small_cluster({1.0});
  set_trace(config.workers[0],
            {.speed = ValueTrace({{{}, 1}, {seconds(10), 0.5}, {seconds(30), 2}})});
  const auto ends = step_ends(run(config, small_blobs(), "asp"), 0);
  const double start = ends[0] - 1;
  // Ten steps of 1 s, ten of 2 s, the rest of 0.5 s.
  REQUIRE(ends.size() > 30);
  CHECK(ends[9] == doctest::Approx(start + 10));
  CHECK(ends[10] == doctest::Approx(start + 12));
  CHECK(ends[19] == doctest::Approx(start + 30));
  CHECK(ends[20] == doctest::Approx(start + 30.5));
  CHECK(ends.back() - ends[20] == doctest::Approx(0.5 * static_cast<double>(ends.size() - 21)));
}

// A step of s seconds at time t takes s (1 + d)^t, t in hours. So after T hours the worker has made
// (1 - (1 + d)^-T) / (s ln(1 + d)) steps, s in hours, where s is short.
TEST_CASE("drift: the steps of two hours are those of its closed form") {
  constexpr double kHours = 2;
  for (const double drift : {-0.5, 0.0, 1.0}) {
    CAPTURE(drift);
    auto config = small_cluster({1.0});
    config.model.kind = "timing";
    config.model.parameters = 1000;
    config.workers[0].device.drift = drift;
    config.stop.max_seconds = 3600 * kHours;
    const auto steps = static_cast<double>(run(config, {}, "asp").record.steps);
    const double rate = std::log1p(drift);
    const double expected = 3600 * (drift == 0 ? kHours : -std::expm1(-rate * kHours) / rate);
    CHECK(steps == doctest::Approx(expected).epsilon(2e-3));
  }
}

TEST_CASE("trace: a round has the bandwidth of its time") {
  auto config = small_cluster({1.0});
  config.model.kind = "timing";
  config.model.parameters = 1'000'000;  // 4 MB
  config.stop.max_seconds = 200;
  const ValueTrace rate({{{}, 4e6}, {seconds(60.5), 1e6}});
  set_trace(config.workers[0], {.up = rate, .down = rate});
  const auto ends = timed_ends(run(config, train::DataSplit{}, "bsp"));
  // 4 MB up and 4 MB down at 4 MB/s, and a step: 3 s. Then 9 s. Frames cost less than 0.1 %.
  CHECK(ends[5] - ends[4] == doctest::Approx(3).epsilon(1e-3));
  const double last = ends.back() - ends[ends.size() - 2];
  CHECK(last == doctest::Approx(9).epsilon(1e-3));
}

TEST_CASE("trace: nothing passes while the rate is 0, and nothing is lost") {
  auto config = small_cluster({1.0});
  config.model.kind = "timing";
  config.model.parameters = 1'000'000;
  config.stop.max_seconds = 100;
  const ValueTrace rate({{{}, 4e6}, {seconds(30.1), 0}, {seconds(36.1), 4e6}});
  set_trace(config.workers[0], {.up = rate, .down = rate});
  const auto ends = timed_ends(run(config, train::DataSplit{}, "bsp"));
  std::vector<double> rounds;
  for (std::size_t i = 1; i < ends.size(); ++i) rounds.push_back(ends[i] - ends[i - 1]);
  CHECK(std::ranges::max(rounds) == doctest::Approx(9).epsilon(1e-3));
  CHECK(std::ranges::count_if(rounds, [](double r) { return r > 3.1; }) == 1);
}

// Before training the link has the trace's first rate above 0, so that the worker joins. Then
// nothing passes until 6 s, nor does the word that training has begun.
TEST_CASE("trace: one whose rate begins at 0 lets its node join, and then holds") {
  auto config = small_cluster({1.0});
  config.model.kind = "timing";
  config.model.parameters = 1'000'000;
  config.stop.max_seconds = 100;
  const ValueTrace rate({{{}, 0}, {seconds(6), 4e6}});
  for (const bool at_server : {false, true}) {
    CAPTURE(at_server);
    const auto trace = std::make_shared<const NodeTrace>(NodeTrace{.up = rate, .down = rate});
    config.workers[0].traces.clear();
    config.servers.trace = nullptr;
    if (at_server)
      config.servers.trace = trace;
    else
      config.workers[0].traces = {trace};
    const Run done = run(config, train::DataSplit{}, "bsp");
    const auto ends = timed_ends(done);
    // The first step ends at 8 s: 6 s, the parameters, and the step. A commit, its reply and a step
    // take 3 s, so the 31st ends at 98 s.
    CHECK(ends.size() == 31);
    CHECK(ends[1] - ends[0] == doctest::Approx(3).epsilon(1e-3));
    CHECK(done.record.seconds == doctest::Approx(100));
  }
}

TEST_CASE("trace: a server's link has one, too") {
  auto config = small_cluster({1.0});
  config.model.kind = "timing";
  config.model.parameters = 1'000'000;
  const ValueTrace rate({{{}, 4e6}, {seconds(1), 2e6}}, seconds(2));
  config.servers.trace = std::make_shared<const NodeTrace>(NodeTrace{.down = rate});
  // 3 MB/s on average, up only from the worker's side; whole turns of 2 s carry 6 MB.
  const auto ends = timed_ends(run(config, train::DataSplit{}, "bsp"));
  const double mean = (ends.back() - ends[0]) / static_cast<double>(ends.size() - 1);
  CHECK(mean > 1 + 4.0 / 4);
  CHECK(mean < 1 + 4.0 / 2);
}

TEST_CASE("trace: the same bytes every time, whatever the number of threads") {
  auto config = small_cluster({0.3, 0.5});
  config.workers[0].link = {.latency_seconds = 0.01, .jitter = 0.3, .loss = 0.01};
  const ValueTrace rate({{{}, 1e5}, {seconds(0.7), 3e4}, {seconds(1.1), 0}}, seconds(1.3));
  set_trace(config.workers[0], {.up = rate, .down = rate});
  set_trace(config.workers[1], {.speed = ValueTrace({{{}, 1}, {seconds(1), 3}}, seconds(2))});
  for (const char* sync : {"bsp", "adsp"}) {
    const Run first = run(config, small_blobs(), sync, 5, 1);
    const Run second = run(config, small_blobs(), sync, 5, 2);
    CHECK(first.log == second.log);
    CHECK(to_text(first.record) == to_text(second.record));
  }
}

TEST_CASE("energy: busy, idle and radio seconds of a barrier with a slow worker and a link") {
  auto config = small_cluster({1.0, 3.0});
  config.model.kind = "timing";
  config.model.parameters = 1'000'000;
  config.stop.max_seconds = 600;
  for (auto& group : config.workers) {
    group.link.up_bytes_per_second = group.link.down_bytes_per_second = 8e6;
    group.power = {.busy = 7, .idle = 2, .radio = 1.5};
  }
  auto record = run(config, train::DataSplit{}, "bsp").record;
  add_energy(config, record);
  // A round takes 3 + 0.5 + 0.5 s: 150 of them. What a worker does not compute or communicate, it
  // waits. The last round is not whole, and frames cost a little.
  const double rounds = 150;
  CHECK(*record.workers[0].joules ==
        doctest::Approx(rounds * (7 * 1 + 2 * 3 + 1.5 * 1)).epsilon(0.01));
  CHECK(*record.workers[1].joules ==
        doctest::Approx(rounds * (7 * 3 + 2 * 1 + 1.5 * 1)).epsilon(0.01));
}

}  // namespace rubato::emulation::trace_tests
