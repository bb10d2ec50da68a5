// Random clusters: whatever the machines, links and options, a run keeps its promises.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>

#include "sync/adsp.hpp"
#include "sync/factory.hpp"
#include "sync/ssp.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

// Evenly over the whole range, in every trial.
int between(int least, int most) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, most + 1));
}

double one_of(const std::vector<double>& values) {
  return values[static_cast<std::size_t>(between(0, static_cast<int>(values.size()) - 1))];
}

cluster::LinkModel random_link() {
  return {.latency_seconds = one_of({0, 0, 0.01, 0.2}),
          .jitter = one_of({0, 0.5}),
          .up_bytes_per_second = one_of({0, 0, 5'000, 50'000}),
          .down_bytes_per_second = one_of({0, 0, 10'000, 50'000})};
}

cluster::ClusterConfig random_cluster(int servers_max) {
  cluster::ClusterConfig config = small_cluster({});
  const int groups = between(1, 3);
  for (int i = 0; i < groups; ++i)
    config.workers.push_back(
        {.name = "w" + std::to_string(i),
         .count = between(1, 3),
         .device = {.step_seconds = one_of({0.05, 0.11, 0.3, 1}), .jitter = one_of({0, 0.1, 1})},
         .link = random_link()});
  config.servers = {.count = between(1, servers_max),
                    .link = random_link(),
                    .apply_bytes_per_second = one_of({0, 20'000})};
  config.servers.update_limit = 0;  // some of these runs diverge, and none of it is to be refused
  config.chunk_bytes = static_cast<std::uint64_t>(one_of({64, 400, 1 << 20}));
  config.sync.of<sync::SspOptions>().staleness = between(0, 5);
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(one_of({1, 5}));
  config.sync.of<sync::AdspOptions>().epoch = Duration::from_seconds(15);
  config.sync.of<sync::AdspOptions>().overlap = between(0, 1) == 1;
  config.stop.max_seconds = 20;
  return config;
}

std::string random_model() {
  const auto models = sync::models();
  return std::string(
      models[static_cast<std::size_t>(between(0, static_cast<int>(models.size()) - 1))].name);
}

}  // namespace

TEST_CASE("a random cluster gives the same bytes with one thread and with three") {
  const auto data = small_blobs();
  CHECK(rc::check([&] {
    const cluster::ClusterConfig config = random_cluster(3);
    const std::string model = random_model();
    const auto seed = static_cast<std::uint64_t>(between(0, 1000));
    const Run one = run(config, data, model, seed, 1);
    const Run three = run(config, data, model, seed, 3);
    RC_ASSERT(one.log == three.log);
    RC_ASSERT(to_text(one.record) == to_text(three.record));
  }));
}

TEST_CASE("a random cluster trains, loses no time and waits only where its model does") {
  const auto data = small_blobs();
  CHECK(rc::check([&] {
    const cluster::ClusterConfig config = random_cluster(3);
    const std::string model = random_model();
    const RunRecord record = run(config, data, model).record;
    RC_ASSERT(record.stop_reason == "max_seconds 20 reached");
    if (model != "tempo") RC_ASSERT(record.refused_commits == 0u);  // it may have gone back
    RC_ASSERT(record.steps > 0u);
    RC_ASSERT_FALSE(record.evaluations.empty());
    for (const auto& worker : record.workers) {
      RC_ASSERT(worker.fate == "member");
      RC_ASSERT(worker.commits <= worker.steps);
      RC_ASSERT(worker.compute.seconds() + worker.wait.seconds() + worker.communicate.seconds() <=
                record.seconds + 1e-6);
      if (model == "asp" || model == "adsp") RC_ASSERT(worker.wait.seconds() == 0);
    }
  }));
}

TEST_CASE("in a random cluster SSP's staleness never exceeds s") {
  const auto data = small_blobs();
  CHECK(rc::check([&] {
    cluster::ClusterConfig config = random_cluster(1);
    config.chunk_bytes = 1 << 20;  // a commit is one message
    const Run ssp = run(config, data, "ssp");
    std::map<int, int> commits;  // at the server
    for (int worker = 0; worker < config.worker_count(); ++worker) commits[worker] = 0;
    for (const auto& line : parameter_lines(ssp)) {
      const auto slowest =
          std::ranges::min_element(commits, {}, [](const auto& entry) { return entry.second; });
      if (line.commit) {
        ++commits[line.worker];
      } else {
        RC_ASSERT(commits[line.worker] - slowest->second <=
                  config.sync.of<sync::SspOptions>().staleness);
      }
    }
  }));
}
