// Virtual time in closed form: rounds, transfers, shared links, a server's own work, and where the
// time of every worker went.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "sync/adsp.hpp"
#include "sync/ssp.hpp"
#include "tests/each_model.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

// A model of 40,404 parameters, so that control frames hardly count beside the payload.
train::DataSplit wide_blobs() {
  return blobs(200, 10'100);
}
constexpr double kWideBytes = 4 * (4 * 10'100 + 4);

cluster::ClusterConfig wide_cluster(const std::vector<double>& step_seconds) {
  cluster::ClusterConfig config = small_cluster(step_seconds);
  config.model.kind = "svm";
  config.model.hidden = {};
  config.training.batch = 4;
  config.training.learning_rate = 1e-4;
  config.stop.max_seconds = 30;
  return config;
}

// Every worker's steps end this far apart, after the first two.
void check_rounds(const Run& run, int workers, double seconds, double tolerance) {
  for (int worker = 0; worker < workers; ++worker) {
    CAPTURE(worker);
    const auto ends = step_ends(run, worker);
    REQUIRE(ends.size() >= 5);
    for (std::size_t i = 2; i < ends.size(); ++i)
      REQUIRE(std::abs(ends[i] - ends[i - 1] - seconds) <= tolerance);
  }
}

}  // namespace

TEST_CASE("a BSP round takes the slowest step and one commit") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.25, 0.7});
  set_latency(config, 0.15);
  config.servers.link.latency_seconds = 0.05;
  const Run bsp = run(config, data, "bsp");
  check_rounds(bsp, 3, 0.7 + 2 * (0.15 + 0.05), kNanoseconds);
  CHECK(bsp.record.workers[0].steps == bsp.record.workers[2].steps);
}

TEST_CASE("BSP waits for the slowest, in closed form") {
  const auto data = small_blobs();
  const std::vector<double> t = {0.1, 0.25, 0.7};
  cluster::ClusterConfig config = small_cluster(t);
  set_latency(config, 0.1);
  config.stop.max_seconds = 300;
  const RunRecord record = run(config, data, "bsp").record;
  const double round = 0.7 + 0.2;
  const double waited = (0.7 - 0.1) + (0.7 - 0.25);
  CHECK(record.wait_share == doctest::Approx(waited / (3 * round)).epsilon(0.01));
  CHECK(record.communicate_share == doctest::Approx(0.2 / round).epsilon(0.01));
  CHECK(record.compute_share ==
        doctest::Approx(std::accumulate(t.begin(), t.end(), 0.0) / (3 * round)).epsilon(0.01));
  CHECK(record.workers[2].wait.seconds() == 0);
}

TEST_CASE("ADSP and ASP never wait for another worker") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.1, 1.0});
  set_latency(config, 0.1);
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(6);
  config.stop.max_seconds = 120;
  for (const std::string model : {"adsp", "asp"}) {
    CAPTURE(model);
    const RunRecord record = run(config, data, model).record;
    CHECK(record.wait_share == 0);
    for (const auto& worker : record.workers) CHECK(worker.wait.seconds() == 0);
  }
}

TEST_CASE("a commit over a slow link takes its bytes over the bandwidth, up and down") {
  const auto data = wide_blobs();
  cluster::ClusterConfig config = wide_cluster({0.5});
  config.workers[0].link = {.latency_seconds = 0.1,
                            .jitter = 0,
                            .up_bytes_per_second = 200'000,
                            .down_bytes_per_second = 800'000};
  const Run bsp = run(config, data, "bsp");
  const double commit = 2 * 0.1 + kWideBytes / 200'000 + kWideBytes / 800'000;
  check_rounds(bsp, 1, 0.5 + commit, 0.005);
  CHECK(bsp.record.communicate_share == doctest::Approx(commit / (0.5 + commit)).epsilon(0.03));
}

TEST_CASE(
    "workers that commit at once share the server's link, so each takes as many times longer") {
  const auto data = wide_blobs();
  for (const std::size_t workers : {1, 2, 4}) {
    CAPTURE(workers);
    cluster::ClusterConfig config = wide_cluster(std::vector<double>(workers, 0.5));
    config.servers.link = {.latency_seconds = 0,
                           .jitter = 0,
                           .up_bytes_per_second = 2e6,
                           .down_bytes_per_second = 1e6};
    config.evaluation.interval_seconds = 1000;  // its pulls share the link too
    const double shared = static_cast<double>(workers) * (kWideBytes / 1e6 + kWideBytes / 2e6);
    check_rounds(run(config, data, "bsp"), static_cast<int>(workers), 0.5 + shared, 0.01);
  }
}

TEST_CASE("two servers of one link each halve the transfer") {
  const auto data = wide_blobs();
  cluster::ClusterConfig config = wide_cluster({0.5, 0.5});
  config.servers = {.count = 2,
                    .link = {.latency_seconds = 0,
                             .jitter = 0,
                             .up_bytes_per_second = 1e6,
                             .down_bytes_per_second = 1e6},
                    .apply_bytes_per_second = 0};
  config.evaluation.interval_seconds = 1000;
  check_rounds(run(config, data, "bsp"), 2, 0.5 + 2 * 2 * (kWideBytes / 2) / 1e6, 0.01);
}

TEST_CASE("a server works on one commit after the other") {
  const auto data = wide_blobs();
  cluster::ClusterConfig config = wide_cluster({0.5, 0.5, 0.5});
  config.servers.apply_bytes_per_second = 2e6;
  const Run bsp = run(config, data, "bsp");
  const double apply = kWideBytes / 2e6;
  check_rounds(bsp, 3, 0.5 + 3 * apply, kNanoseconds);
  // The first to be worked on waits for the other two, the second for the third.
  const double rounds = static_cast<double>(bsp.record.commits) / 3;
  double waited = 0;
  for (const auto& worker : bsp.record.workers) waited += worker.wait.seconds();
  CHECK(waited / rounds == doctest::Approx((2 + 1) * apply).epsilon(0.01));
}

// After 15 s of silence a worker asks where its commit stands. The question waits its turn behind
// the commit, so that nothing is sent twice.
TEST_CASE("a server that works long on a commit gets it once") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.5});
  config.servers.apply_bytes_per_second = 4 * 108 / 20.0;  // 20 s a commit
  config.stop.max_seconds = 300;
  std::map<std::uint64_t, int> messages;  // by commit
  for (const auto& line : parameter_lines(run(config, data, "asp")))
    if (line.commit) ++messages[line.sequence];
  CHECK(messages.size() == 14);  // every 20.5 s
  for (const auto& [sequence, count] : messages) CHECK(count == 1);
}

TEST_CASE("the parameters of every interval are evaluated, however short it is") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.3});
  config.stop.max_seconds = 30;
  for (const double interval : {0.4, 7.0}) {
    CAPTURE(interval);
    config.evaluation.interval_seconds = interval;
    const auto evaluations = run(config, data, "bsp").record.evaluations;
    REQUIRE(evaluations.size() >= 4);
    CHECK(evaluations.front().seconds <= 1);
    CHECK(evaluations.back().seconds >= 30 - interval - 1);  // the last may still be under way
    for (std::size_t i = 1; i < evaluations.size(); ++i)
      CHECK(std::abs(evaluations[i].seconds - evaluations[i - 1].seconds - interval) < 1e-6);
  }
}

TEST_CASE("jitter keeps the mean of the steps") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.4});
  for (auto& group : config.workers) group.device.jitter = 0.2;
  config.stop.max_seconds = 300;
  const RunRecord record = run(config, data, "asp").record;
  CHECK(record.workers[0].step_seconds == doctest::Approx(0.1).epsilon(0.02));
  CHECK(record.workers[1].step_seconds == doctest::Approx(0.4).epsilon(0.04));
  CHECK(record.heterogeneity == doctest::Approx((10 + 2.5) / 2 / 2.5).epsilon(0.05));
}

namespace {

void times_add_up(const std::string& model) {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.25, 0.7});
  set_latency(config, 0.1);
  config.sync.of<sync::SspOptions>().staleness = 3;
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(6);
  const RunRecord record = run(config, data, model).record;
  std::uint64_t steps = 0, commits = 0;
  for (const auto& worker : record.workers) {
    CAPTURE(worker.id);
    const double sum =
        worker.compute.seconds() + worker.wait.seconds() + worker.communicate.seconds();
    // What is not over when the run ends is in no column: a step, or a commit and what it waits.
    // Under hero-sgd all but the fastest wait to the end.
    const bool waits = model == "hero-sgd" && worker.id != "w0";
    const double unfinished = waits ? record.seconds : model == "ssp" ? 4 * 0.9 : 0.9;
    CHECK(sum <= record.seconds + 1e-6);
    CHECK(sum >= record.seconds - unfinished);
    CHECK(worker.commits <= worker.steps);
    steps += worker.steps;
    commits += worker.commits;
  }
  CHECK(record.steps == steps);
  CHECK(record.commits == commits);
  CHECK(record.compute_share + record.wait_share + record.communicate_share == doctest::Approx(1));
  CHECK(record.seconds == doctest::Approx(60).epsilon(1e-6));
}

}  // namespace

const tests::EachModel kEachTimesAddUp("the times of every worker add up to the run", __FILE__,
                                       __LINE__, times_add_up);

TEST_CASE("bytes are those of the commits and their replies") {
  const auto data = wide_blobs();
  cluster::ClusterConfig config = wide_cluster({0.5, 0.5});
  const RunRecord record = run(config, data, "bsp").record;
  REQUIRE(record.commits > 100);
  const double commits = static_cast<double>(record.commits);
  CHECK(static_cast<double>(record.bytes_up) ==
        doctest::Approx(commits * kWideBytes).epsilon(0.02));
  // One more down for each worker: the first pull.
  CHECK(static_cast<double>(record.bytes_down) ==
        doctest::Approx((commits + 2) * kWideBytes).epsilon(0.02));
}
