#include "cluster/cluster_changes.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace rubato::cluster::changes_tests {
namespace {

const std::string kCluster = R"(
[stop]
max_steps = 100
[[workers]]
name = "pi"
count = 3
step_seconds = 0.5
latency_seconds = 0.1
up_mbps = 8
[[workers]]
name = "laptop"
step_seconds = 0.1
[[churn]]
at = 5
worker = "pi"
do = "freeze"
seconds = 2
)";

Result<ClusterConfig> changed(const ClusterChange& change) {
  return parse_cluster(kCluster, "c.toml", "", {}, {}, change);
}

std::vector<std::string> names_of(const ClusterConfig& config) {
  std::vector<std::string> names;
  for (const WorkerProfile& worker : all_profiles(config)) names.push_back(worker.name);
  return names;
}

std::string error_of(const ClusterChange& change) {
  const auto config = changed(change);
  REQUIRE_FALSE(config.has_value());
  return config.error().message;
}

TEST_CASE("changes: a worker goes with its events, and the others keep their names") {
  const auto config = changed([](ClusterConfig& c) { return remove_workers(c, "pi-1"); });
  REQUIRE(config.has_value());
  CHECK(names_of(*config) == std::vector<std::string>{"pi-0", "pi-2", "laptop"});
  REQUIRE(config->churn.size() == 2);
  CHECK(config->churn[0].worker == "pi-0");
  CHECK(config->churn[1].worker == "pi-2");
  CHECK(config->workers[1].link.latency_seconds == 0.1);
}

TEST_CASE("changes: what follows from the number of workers follows them") {
  const auto before = changed({});
  const auto fewer = changed([](ClusterConfig& c) { return remove_workers(c, "pi"); });
  const auto more = changed([](ClusterConfig& c) { return add_workers(c, 4, "laptop"); });
  REQUIRE(before.has_value());
  REQUIRE(fewer.has_value());
  REQUIRE(more.has_value());
  // A twentieth of the run: 16 steps a second, 10, and 56.
  CHECK(before->evaluation.interval_seconds == doctest::Approx(100 / 16.0 / 20));
  CHECK(fewer->evaluation.interval_seconds == doctest::Approx(100 / 10.0 / 20));
  CHECK(names_of(*fewer) == std::vector<std::string>{"laptop"});
  CHECK(more->evaluation.interval_seconds == doctest::Approx(100 / 56.0 / 20));
  CHECK(more->worker_count() == 8);
  CHECK(more->workers.back().device.step_seconds == 0.1);
  CHECK(names_of(*more).back() == "laptop-more-3");
}

TEST_CASE("changes: a link is another one, or twice as fast, of one worker or of its group") {
  const auto one = changed([](ClusterConfig& c) { return speed_up_link(c, "pi-1", 2); });
  const auto group = changed([](ClusterConfig& c) { return speed_up_link(c, "pi", 2); });
  const auto other =
      changed([](ClusterConfig& c) { return set_link(c, "servers", {.latency_seconds = 1}); });
  const auto none = changed([](ClusterConfig& c) { return remove_links(c); });
  REQUIRE(one.has_value());
  REQUIRE(group.has_value());
  REQUIRE(other.has_value());
  REQUIRE(none.has_value());
  const auto workers = worker_profiles(*one);
  CHECK(workers[0].link.latency_seconds == 0.1);
  CHECK(workers[1].link.latency_seconds == 0.05);
  CHECK(workers[1].link.up_bytes_per_second == 2e6);
  CHECK(worker_profiles(*group)[2].link.up_bytes_per_second == 2e6);
  CHECK(other->servers.link.latency_seconds == 1);
  CHECK_FALSE(names_links(*none));
}

TEST_CASE("changes: a group keeps its name where each of its workers stands alone") {
  const auto split = [](const ClusterChange& change) {
    return changed([&](ClusterConfig& c) -> Result<void> {
      split_groups(c);
      c.workers[0].device.step_seconds = 0.7;
      return change(c);
    });
  };
  const auto fewer = split([](ClusterConfig& c) { return remove_workers(c, "pi"); });
  const auto more = split([](ClusterConfig& c) { return add_workers(c, 2, "pi"); });
  const auto link =
      split([](ClusterConfig& c) { return set_link(c, "pi", {.latency_seconds = 1}); });
  REQUIRE(fewer.has_value());
  REQUIRE(more.has_value());
  REQUIRE(link.has_value());
  CHECK(names_of(*fewer) == std::vector<std::string>{"laptop"});
  CHECK(more->workers.back().name == "pi-more");
  CHECK(more->workers.back().count == 2);
  CHECK(more->workers.back().device.step_seconds == 0.7);
  for (const WorkerProfile& worker : worker_profiles(*link))
    CHECK((worker.link.latency_seconds == 1) == worker.name.starts_with("pi-"));
  // A new worker is no part of the group that it is like.
  const auto both = split([](ClusterConfig& c) -> Result<void> {
    RUBATO_TRY(add_workers(c, 1, "pi"));
    return remove_workers(c, "pi");
  });
  REQUIRE(both.has_value());
  CHECK(names_of(*both) == std::vector<std::string>{"laptop", "pi-more"});
}

TEST_CASE("changes: a traced link is twice as fast at every moment") {
  const auto config = changed([](ClusterConfig& c) {
    auto trace = std::make_shared<NodeTrace>();
    trace->up = ValueTrace({{Duration{}, 1e6}, {Duration::from_seconds(5), 3e6}});
    c.workers[1].traces = {trace};
    return speed_up_link(c, "laptop", 2);
  });
  REQUIRE(config.has_value());
  const auto trace = worker_profiles(*config).back().trace;
  REQUIRE(trace);
  CHECK(trace->up.at(Duration::from_seconds(1)) == 2e6);
  CHECK(trace->up.at(Duration::from_seconds(9)) == 6e6);
}

TEST_CASE("changes: every worker has the codec") {
  const auto config = changed([](ClusterConfig& c) { return set_codec(c, "int8"); });
  REQUIRE(config.has_value());
  for (const WorkerProfile& worker : worker_profiles(*config)) {
    CHECK(worker.codecs.up.codec == proto::PayloadCodec::Int8);
    CHECK(worker.codecs.down.codec == proto::PayloadCodec::Int8);
  }
}

TEST_CASE("changes: what cannot be, and what changes nothing, is one clear line") {
  CHECK(error_of([](ClusterConfig& c) { return remove_workers(c, "pi-7"); }) ==
        "pi-7 is no worker or group of the cluster; did you mean pi-0?");
  CHECK(error_of([](ClusterConfig& c) { return add_workers(c, 1, "tablet"); }) ==
        "tablet is no worker or group of the cluster; valid: pi, pi-0, pi-1, pi-2, laptop");
  CHECK(error_of([](ClusterConfig& c) { return speed_up_link(c, "laptop", 2); }) ==
        "the link of laptop takes no time already");
  CHECK(error_of([](ClusterConfig& c) {
          return set_link(c, "pi-2", {.latency_seconds = 0.1, .up_bytes_per_second = 1e6});
        }) == "pi-2 has that link already");
  CHECK(error_of([](ClusterConfig& c) { return set_codec(c, "f32"); }) ==
        "all workers use f32 already");
  CHECK(error_of([](ClusterConfig& c) { return set_codec(c, "int9"); }) ==
        "int9 is no codec; did you mean int8?");
  CHECK(error_of([](ClusterConfig& c) -> Result<void> {
          RUBATO_TRY(remove_workers(c, "pi"));
          return remove_workers(c, "laptop");
        }) == "laptop: nobody is left to train");
}

}  // namespace
}  // namespace rubato::cluster::changes_tests
