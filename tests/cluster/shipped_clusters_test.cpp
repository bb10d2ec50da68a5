// The cluster files that are shipped: each is what its comments and the documents say.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/shipped.hpp"
#include "cluster/cluster_config.hpp"
#include "sync/adsp.hpp"
#include "sync/ssp.hpp"

using namespace rubato::cluster;

namespace {

const std::string kDirectory = RUBATO_SOURCE_DIR "/deploy/clusters/";

ClusterConfig load(const std::string& name) {
  auto config = load_cluster(kDirectory + name + ".toml");
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  CHECK(config->name == name);
  return std::move(*config);
}

std::vector<double> step_times(const ClusterConfig& config) {
  std::vector<double> seconds;
  for (const WorkerProfile& worker : worker_profiles(config))
    seconds.push_back(worker.device.step_seconds);
  return seconds;
}

// Share of a BSP round that the mean worker spends waiting for the slowest, by the step times.
double bsp_waiting(const ClusterConfig& config) {
  const std::vector<double> t = step_times(config);
  const double slowest = *std::max_element(t.begin(), t.end());
  const double mean =
      std::accumulate(t.begin(), t.end(), 0.0) / static_cast<double>(config.worker_count());
  return (slowest - mean) / (slowest + 2 * config.workers[0].link.latency_seconds);
}

// Every worker's commit, there and back, by latency alone.
void check_commit_seconds(const ClusterConfig& config, double seconds) {
  for (const WorkerProfile& worker : worker_profiles(config)) {
    CHECK(2 * worker.link.latency_seconds == seconds);
    CHECK(worker.link.up_bytes_per_second == 0);
  }
}

void check_comparison_setting(const ClusterConfig& config) {
  CHECK(config.model.kind == "mlp");
  CHECK(config.model.hidden == std::vector<int>{64});
  CHECK(config.dataset.kind == "fashion-mnist");
  CHECK(config.training.batch == 32);
  CHECK(config.training.learning_rate == 0.05);
  CHECK(config.training.decay == 1);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().check_period ==
        rubato::Duration::from_seconds(60));
  CHECK(config.stop.target_loss == 0.45);
  CHECK_FALSE(config.optimizer.global_rate.has_value());
}

}  // namespace

TEST_CASE("edge-3: step times 1 to 1 to 3, 0.2 s a commit") {
  const ClusterConfig config = load("edge-3");
  CHECK(step_times(config) == std::vector<double>{0.5, 0.5, 1.5});
  CHECK(worker_profiles(config)[0].name == "pi-0");
  CHECK(worker_profiles(config)[2].name == "slow");
  check_commit_seconds(config, 0.2);
  check_comparison_setting(config);
}

TEST_CASE("edge-3-skewed: edge-3 with four classes a worker") {
  const ClusterConfig config = load("edge-3-skewed");
  CHECK(step_times(config) == step_times(load("edge-3")));
  check_commit_seconds(config, 0.2);
  CHECK(config.partition.kind == rubato::train::Partition::Kind::Labels);
  CHECK(config.stop.target_loss == 0.5);
}

TEST_CASE("edge-18: H = 3.2, and BSP waits near 45 % of the time") {
  const ClusterConfig config = load("edge-18");
  CHECK(config.worker_count() == 18);
  CHECK(configured_heterogeneity(config) == doctest::Approx(3.2).epsilon(0.001));
  CHECK(bsp_waiting(config) == doctest::Approx(0.45).epsilon(0.02));
  check_commit_seconds(config, 0.2);
  check_comparison_setting(config);
}

TEST_CASE("edge-18-slow-net: edge-18 with 5 s a commit") {
  const ClusterConfig config = load("edge-18-slow-net");
  CHECK(step_times(config) == step_times(load("edge-18")));
  check_commit_seconds(config, 5);
  check_comparison_setting(config);
}

TEST_CASE("paper-3: the paper's step times, batch, rates and commit cost") {
  const ClusterConfig config = load("paper-3");
  CHECK(step_times(config) == std::vector<double>{0.48, 0.39, 1.46});
  check_commit_seconds(config, 8.5);
  CHECK(config.training.batch == 128);
  CHECK(config.training.learning_rate == 0.1);
  CHECK(config.sync.of<rubato::sync::SspOptions>().staleness == 40);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().epoch == rubato::Duration::from_seconds(1200));
}

TEST_CASE("paper-18: the paper's machines, within the step times it measured") {
  const ClusterConfig config = load("paper-18");
  struct Range {
    std::string group;
    int count;
    double low, high;
  };
  for (const Range& range :
       {Range{"t2-large", 7, 0.87, 1.39}, Range{"t2-xlarge", 5, 0.59, 0.73},
        Range{"t2-2xlarge", 4, 0.50, 0.51}, Range{"t3-xlarge", 2, 0.61, 0.69}}) {
    CAPTURE(range.group);
    const auto group = std::find_if(config.workers.begin(), config.workers.end(),
                                    [&](const WorkerGroup& g) { return g.name == range.group; });
    REQUIRE(group != config.workers.end());
    CHECK(group->count == range.count);
    CHECK(group->device.step_seconds >= range.low);
    CHECK(group->device.step_seconds <= range.high);
  }
  CHECK(config.worker_count() == 18);
  CHECK(config.training.batch == 128);
}

TEST_CASE("no shipped file is without a test above") {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kDirectory))
    files.insert(entry.path().filename().string());
  CHECK(files == std::set<std::string>{"edge-18-slow-net.toml", "edge-18.toml",
                                       "edge-3-skewed.toml", "edge-3.toml", "paper-18.toml",
                                       "paper-3.toml"});
}

TEST_CASE("the catalog is found: beside the file, else in a deploy directory above") {
  const auto directory = std::filesystem::temp_directory_path() / "rubato-catalog-test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory / "a" / "b");
  std::filesystem::create_directories(directory / "deploy");
  const auto catalog = [](const std::string& gflops) {
    return "[[devices]]\nname = \"box\"\nsource = \"test\"\ngflops = " + gflops + "\n";
  };
  const auto file = directory / "a" / "b" / "edge.toml";
  std::ofstream(file) << "[[workers]]\nname = \"w\"\ndevice = \"box\"\n[stop]\nmax_steps = 1\n";
  std::ofstream(directory / "deploy" / "devices.toml") << catalog("1");
  const auto step_seconds = [&](const std::string& path) {
    const auto config = load_cluster(file.string(), path);
    REQUIRE_MESSAGE(config.has_value(), config.error().message);
    return config->workers[0].device.step_seconds;
  };
  const double above = step_seconds("");
  std::ofstream(directory / "a" / "b" / "devices.toml") << catalog("2");
  CHECK(step_seconds("") == doctest::Approx(above / 2));
  std::ofstream(directory / "mine.toml") << catalog("4");
  CHECK(step_seconds((directory / "mine.toml").string()) == doctest::Approx(above / 4));
  std::filesystem::remove_all(directory);
}

TEST_CASE("a missing file is named") {
  const auto config = load_cluster("/nowhere/edge.toml");
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().code == rubato::ErrorCode::BadInput);
  CHECK(config.error().message ==
        "/nowhere/edge.toml: No such file or directory; write one, or copy an example from " +
            (shipped_directory() / "clusters/").string());
}
