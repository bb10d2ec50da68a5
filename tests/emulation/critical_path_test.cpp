// Critical paths against closed forms, and against what a part that gets faster really saves.
#include "emulation/critical_path.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "scheduler/likely_path.hpp"
#include "sync/adsp.hpp"
#include "tests/each_model.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

using What = PathPart::What;

constexpr double kCommitBytes = 4e6;

// Timing alone, a model of 1,000,000 parameters in one chunk. `steps`: of all workers.
cluster::ClusterConfig timed_cluster(const std::vector<double>& step_seconds, std::uint64_t steps) {
  cluster::ClusterConfig config = small_cluster(step_seconds);
  config.model.kind = "timing";
  config.model.parameters = static_cast<std::uint64_t>(kCommitBytes / 4);
  config.stop.max_steps = steps;
  config.stop.max_seconds = 1e6;
  return config;
}

RunRecord path_run(const cluster::ClusterConfig& config, const std::string& sync) {
  VirtualOptions options;
  options.sync = sync;
  options.path = true;
  auto record = run_virtual(config, {}, options);
  if (!record) FAIL(record.error().message);
  const double sum =
      std::accumulate(record->path.begin(), record->path.end(), 0.0,
                      [](double total, const PathPart& part) { return total + part.share; });
  CHECK(sum == doctest::Approx(1));
  return *record;
}

double share_of(const RunRecord& record, const std::string& node, What what) {
  double share = 0;
  for (const PathPart& part : record.path)
    if (part.node == node && part.what == what) share += part.share;
  return share;
}

// Of all workers together. The run ends some time after its last step, when the scheduler hears it.
double seconds_a_step(const RunRecord& record) {
  return record.seconds / static_cast<double>(record.steps);
}

const std::string& name_of(const cluster::ClusterConfig& config, std::size_t worker) {
  return config.workers[worker].name;
}

}  // namespace

TEST_CASE("critical path: of BSP, the slowest worker's step and its way there and back") {
  auto config = timed_cluster({0.1, 0.25, 0.7}, 600);
  for (auto& worker : config.workers) worker.link.latency_seconds = 0.05;
  config.servers.link.latency_seconds = 0.02;
  const RunRecord record = path_run(config, "bsp");
  const double round = 0.7 + 2 * (0.05 + 0.02);
  CHECK(share_of(record, name_of(config, 2), What::Compute) ==
        doctest::Approx(0.7 / round).epsilon(0.01));
  CHECK(share_of(record, name_of(config, 2), What::Latency) ==
        doctest::Approx(0.14 / round).epsilon(0.01));
  CHECK(share_of(record, name_of(config, 0), What::Compute) < 0.01);
}

TEST_CASE("critical path: of BSP, the slowest uplink although its worker computes fast") {
  auto config = timed_cluster({0.1, 0.5}, 400);
  config.workers[0].link.up_bytes_per_second = 1e6;    // 4 s a commit
  config.workers[0].link.down_bytes_per_second = 8e6;  // 0.5 s
  const RunRecord record = path_run(config, "bsp");
  const double round = 0.1 + 4 + 0.5;
  CHECK(share_of(record, name_of(config, 0), What::Up) == doctest::Approx(4 / round).epsilon(0.01));
  CHECK(share_of(record, name_of(config, 0), What::Down) ==
        doctest::Approx(0.5 / round).epsilon(0.01));
  CHECK(share_of(record, name_of(config, 1), What::Compute) < 0.01);
}

TEST_CASE("critical path: the link of a server that all share, and its work") {
  auto config = timed_cluster({0.5, 0.5}, 400);
  config.servers.link = {
      .latency_seconds = 0, .jitter = 0, .up_bytes_per_second = 0, .down_bytes_per_second = 4e6};
  config.servers.apply_bytes_per_second = 8e6;
  config.chunk_bytes = 8u << 20;  // a commit is one chunk, so the server reads it when all is there
  const RunRecord record = path_run(config, "bsp");
  // Both arrive after 2 s; one is read after the other, 0.5 s each.
  const double round = 0.5 + 2 + 2 * 0.5;
  CHECK(share_of(record, "server-0", What::Down) == doctest::Approx(2 / round).epsilon(0.02));
  CHECK(share_of(record, "server-0", What::Apply) == doctest::Approx(1 / round).epsilon(0.02));
}

TEST_CASE("critical path: of ASP, each worker's own cycle, weighed by its steps") {
  auto config = timed_cluster({0.1, 0.4}, 2000);
  config.workers[0].link.up_bytes_per_second = 40e6;  // 0.1 s a commit
  const RunRecord record = path_run(config, "asp");
  const double fast = 1 / 0.2, slow = 1 / 0.4, all = fast + slow;  // steps a second
  CHECK(share_of(record, name_of(config, 0), What::Compute) ==
        doctest::Approx(0.5 * fast / all).epsilon(0.02));
  CHECK(share_of(record, name_of(config, 0), What::Up) ==
        doctest::Approx(0.5 * fast / all).epsilon(0.02));
  CHECK(share_of(record, name_of(config, 1), What::Compute) ==
        doctest::Approx(slow / all).epsilon(0.02));
}

// The independent check: the part is made 2 % faster, and the same steps are made again.
TEST_CASE("critical path: a part that gets faster saves its share of the time") {
  constexpr double kFaster = 0.02;
  for (const std::string sync : {"bsp", "asp", "ssp", "adsp"}) {
    CAPTURE(sync);
    auto config = timed_cluster({0.11, 0.17, 0.43}, 6000);
    for (auto& worker : config.workers)
      worker.link = {.latency_seconds = 0.01,
                     .jitter = 0,
                     .up_bytes_per_second = 20e6,
                     .down_bytes_per_second = 60e6};
    config.workers[1].link.up_bytes_per_second = 10e6;
    config.sync.of<sync::AdspOptions>().fixed_rate = 20;  // commits a minute
    const RunRecord before = path_run(config, sync);
    const auto saved_by = [&](auto change) {
      auto faster = config;
      change(faster);
      return (1 - seconds_a_step(path_run(faster, sync)) / seconds_a_step(before)) / kFaster;
    };
    for (std::size_t worker = 0; worker < 3; ++worker) {
      CAPTURE(worker);
      CHECK(saved_by([&](auto& c) { c.workers[worker].device.step_seconds *= 1 - kFaster; }) ==
            doctest::Approx(share_of(before, name_of(config, worker), What::Compute))
                .epsilon(0.05)
                .scale(1));
      CHECK(saved_by([&](auto& c) { c.workers[worker].link.up_bytes_per_second /= 1 - kFaster; }) ==
            doctest::Approx(share_of(before, name_of(config, worker), What::Up))
                .epsilon(0.05)
                .scale(1));
    }
  }
}

TEST_CASE("critical path: a worker that joins late was absent before") {
  auto config = timed_cluster({0.5, 0.5}, 4000);
  config.churn.push_back(
      {.at_seconds = 100, .act = cluster::ChurnEvent::Act::Join, .worker = name_of(config, 1)});
  const RunRecord record = path_run(config, "asp");
  const double weight = static_cast<double>(record.workers[1].steps) /
                        static_cast<double>(record.workers[0].steps + record.workers[1].steps);
  CHECK(share_of(record, name_of(config, 1), What::Absent) ==
        doctest::Approx(weight * 100 / record.seconds).epsilon(0.02));
}

TEST_CASE("critical path: recording changes nothing of a run") {
  const auto data = small_blobs();
  auto config = small_cluster({0.1, 0.25});
  VirtualOptions options;
  options.sync = "adsp";
  auto plain = run_virtual(config, data, options);
  options.path = true;
  auto recorded = run_virtual(config, data, options);
  REQUIRE(plain.has_value());
  REQUIRE(recorded.has_value());
  CHECK(plain->path.empty());
  CHECK_FALSE(recorded->path.empty());
  CHECK(to_text(*plain) == to_text(*recorded));
}

TEST_CASE("critical path: of a run that is too long, the last part counts") {
  CriticalPath path;
  const auto name = [](CriticalPath::Node node) { return std::to_string(node); };
  CriticalPath::Cause cause = 0;
  Instant now;
  const auto go_on = [&](What what, std::uint64_t activities) {
    for (std::uint64_t i = 0; i < activities; ++i) {
      now = now + Duration{1000};
      cause = path.add(cause, now, what, 7);
    }
  };
  go_on(What::Up, CriticalPath::kActivitiesMax);
  go_on(What::Compute, CriticalPath::kActivitiesMax / 4);
  auto parts = path.shares({{cause, 1}}, {}, name);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].what == What::Up);
  CHECK(parts[0].share == doctest::Approx(0.75));
  CHECK(parts[1].share == doctest::Approx(0.25));
  go_on(What::Compute, CriticalPath::kActivitiesMax);
  parts = path.shares({{cause, 1}}, {}, name);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].share == doctest::Approx(1));
  CHECK(path.shares({{0, 1}}, {}, name).empty());
}

namespace {

// The estimate of a real run, from the times of its workers, beside the path itself.
void likely_path_is_near(const std::string& model) {
  auto config = small_cluster({0.1, 0.25, 0.25, 0.7});
  for (auto& worker : config.workers) {
    worker.link.latency_seconds = 0.03;
    worker.device.jitter = 0.1;
  }
  config.workers[1].link.latency_seconds = 0.1;
  config.stop.max_seconds = 120;
  VirtualOptions options;
  options.sync = model;
  options.path = true;
  const auto record = run_virtual(config, small_blobs(), options);
  REQUIRE_MESSAGE(record.has_value(), record.error().message);
  std::vector<scheduler::WorkerTimes> times;
  for (const WorkerRecord& w : record->workers)
    times.push_back({.name = w.id,
                     .steps = w.steps,
                     .compute = w.compute.seconds(),
                     .wait = w.wait.seconds(),
                     .communicate = w.communicate.seconds(),
                     .commits = w.commits,
                     .dropped_commits = w.dropped_commits});
  RunRecord likely;
  likely.path = scheduler::likely_path(times);
  double known = 0, found = 0;  // computing, of all nodes
  for (const PathPart& part : record->path) known += part.what == What::Compute ? part.share : 0;
  for (const PathPart& part : likely.path) found += part.what == What::Compute ? part.share : 0;
  CHECK(std::abs(found - known) < 0.05);
  if (share_of(likely, "", What::Compute) > 0) return;  // which node is not known
  for (const WorkerRecord& worker : record->workers) {
    CAPTURE(worker.id);
    CHECK(std::abs(share_of(likely, worker.id, What::Compute) -
                   share_of(*record, worker.id, What::Compute)) < 0.05);
  }
}

}  // namespace

const tests::EachModel kEachLikelyPath("the likely path is near the critical one", __FILE__,
                                       __LINE__, likely_path_is_near);
