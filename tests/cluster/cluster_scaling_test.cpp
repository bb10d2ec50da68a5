#include "cluster/cluster_scaling.hpp"

#include <doctest/doctest.h>

#include <rapidcheck.h>

using namespace rubato;
using namespace rubato::cluster;

namespace {

std::vector<WorkerGroup> groups_of(const std::vector<std::pair<int, double>>& groups) {
  std::vector<WorkerGroup> all;
  for (const auto& [count, step] : groups)
    all.push_back({.name = "g", .count = count, .device = {step, 0}, .link = {}});
  return all;
}

double heterogeneity(const std::vector<WorkerGroup>& groups) {
  ClusterConfig config;
  config.workers = groups;
  return configured_heterogeneity(config);
}

// The ADSP paper's 18 machines.
const std::vector<std::pair<int, double>> kPaper{{4, 0.505}, {2, 0.65}, {5, 0.66}, {7, 1.13}};

}  // namespace

TEST_CASE(
    "worker_count is shared by the groups in proportion, by the largest if they are too many") {
  const auto counts = [](std::vector<WorkerGroup> groups, int total) {
    scale_worker_count(groups, total);
    std::vector<int> result;
    for (const auto& group : groups) result.push_back(group.count);
    return result;
  };
  CHECK(counts(groups_of(kPaper), 18) == std::vector{4, 2, 5, 7});
  CHECK(counts(groups_of(kPaper), 36) == std::vector{8, 4, 10, 14});
  CHECK(counts(groups_of(kPaper), 100) == std::vector{22, 11, 28, 39});
  CHECK(counts(groups_of(kPaper), 4) == std::vector{1, 1, 1, 1});
  CHECK(counts(groups_of(kPaper), 3) == std::vector{1, 1, 1});
  CHECK(counts(groups_of({{1, 1}, {99, 1}}), 10) == std::vector{1, 9});
  CHECK(counts(groups_of({{1, 1}}), 1000) == std::vector{1000});
  CHECK(rc::check("the total is met and nobody is left out", [] {
    const auto sizes =
        *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 50)));
    std::vector<std::pair<int, double>> described;
    for (const int size : sizes) described.emplace_back(size, 1.0);
    auto groups = groups_of(described);
    const auto total = static_cast<int>(sizes.size()) + *rc::gen::inRange(0, 2000);
    scale_worker_count(groups, total);
    int sum = 0;
    for (const auto& group : groups) {
      RC_ASSERT(group.count >= 1);
      sum += group.count;
    }
    RC_ASSERT(sum == total);
  }));
}

TEST_CASE("worker_count below the number of groups keeps the largest, of equals the first") {
  const auto kept = [](std::vector<WorkerGroup> groups, int total) {
    scale_worker_count(groups, total);
    std::vector<double> steps;  // which tell the groups apart
    for (const auto& group : groups) steps.push_back(group.device.step_seconds);
    return steps;
  };
  CHECK(kept(groups_of(kPaper), 1) == std::vector{1.13});
  CHECK(kept(groups_of(kPaper), 2) == std::vector{0.66, 1.13});
  CHECK(kept(groups_of(kPaper), 3) == std::vector{0.505, 0.66, 1.13});
  CHECK(kept(groups_of({{2, 1}, {3, 2}, {2, 3}, {2, 4}}), 3) == std::vector{1.0, 2.0, 3.0});
  CHECK(kept(groups_of({{2, 1}, {2, 2}, {2, 3}}), 1) == std::vector{1.0});
}

TEST_CASE("heterogeneity slows the slowest group down, or brings the slow ones up") {
  // The authors' values, by hand in deploy/clusters/paper-18.toml.
  for (const auto& [h, step] :
       {std::pair{2.0, 1.561}, std::pair{2.6, 2.143}, std::pair{3.2, 2.724}}) {
    auto groups = groups_of(kPaper);
    REQUIRE(set_heterogeneity(groups, h));
    CHECK(groups[3].device.step_seconds == doctest::Approx(step).epsilon(1e-3));
    CHECK(groups[0].device.step_seconds == 0.505);
    CHECK(groups[2].device.step_seconds == 0.66);
    CHECK(heterogeneity(groups) == doctest::Approx(h).epsilon(1e-12));
  }
  auto equal = groups_of(kPaper);
  REQUIRE(set_heterogeneity(equal, 1));
  for (const auto& group : equal) CHECK(group.device.step_seconds == doctest::Approx(0.505));
  auto low = groups_of(kPaper);
  REQUIRE(set_heterogeneity(low, 1.1));
  CHECK(heterogeneity(low) == doctest::Approx(1.1).epsilon(1e-12));
  CHECK(low[0].device.step_seconds == 0.505);
  CHECK(low[1].device.step_seconds == 0.65);
  CHECK(low[2].device.step_seconds == 0.66);
  CHECK(low[3].device.step_seconds < 1.13);

  // Of equals the last one is slowed down.
  auto twins = groups_of({{3, 1.0}, {1, 1.0}});
  REQUIRE(set_heterogeneity(twins, 4));
  CHECK(twins[0].device.step_seconds == 1.0);
  CHECK(heterogeneity(twins) == doctest::Approx(4));
  auto one = groups_of({{3, 1.0}});
  CHECK(set_heterogeneity(one, 1));
  CHECK_FALSE(set_heterogeneity(one, 2));
}

TEST_CASE("heterogeneity is met whatever the groups") {
  CHECK(rc::check([] {
    const auto count = *rc::gen::inRange(2, 6);
    std::vector<std::pair<int, double>> described;
    for (int i = 0; i < count; ++i)
      described.emplace_back(*rc::gen::inRange(1, 20), 0.01 * *rc::gen::inRange(1, 500));
    auto groups = groups_of(described);
    const double wanted = 1 + 0.01 * *rc::gen::inRange(0, 1000);
    RC_ASSERT(set_heterogeneity(groups, wanted));
    RC_ASSERT(std::abs(heterogeneity(groups) / wanted - 1) < 1e-9);
  }));
}
