// The real scheduler, servers and workers of a model of the user's own: when training starts, all
// shards hold the values of one worker, whatever was lost on the way.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <optional>

#include "base/rng.hpp"
#include "tests/each_model.hpp"
#include "tests/server/core_cluster.hpp"

namespace rubato::tests::seeding_tests {
namespace {

constexpr std::size_t kCount = 7;

CoreClusterOptions seeding(const std::string& sync) {
  CoreClusterOptions options;
  options.sync = sync;
  options.servers = 2;
  options.initial = std::vector<float>(kCount, -1);
  options.chunk = 2;
  options.step_times = {Duration::from_ms(50), Duration::from_ms(80), Duration::from_ms(170)};
  options.seeds = true;
  return options;
}

// Whose values all shards hold.
std::optional<std::uint32_t> seeder(const CoreCluster& cluster) {
  for (std::uint32_t worker = 0; worker < 3; ++worker)
    if (cluster.parameters() == seed_of(worker, kCount)) return worker;
  return std::nullopt;
}

// Commits since that the shards have applied.
std::uint64_t commits(const CoreCluster& cluster) {
  return cluster.server(0).stats().commits_applied + cluster.server(1).stats().commits_applied;
}

void check_well(const CoreCluster& cluster) {
  for (std::size_t i = 0; i < 3; ++i) CHECK_FALSE(cluster.worker(i).failure().has_value());
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK_FALSE(cluster.server(i).failure().has_value());
    CHECK(cluster.server(i).stats().messages_refused == 0U);
  }
}

const EachModel kBegins("seed: training starts with the values of the first worker, and goes on",
                        __FILE__, __LINE__, [](const std::string& sync) {
                          CoreCluster cluster(seeding(sync));
                          cluster.run_until(
                              [&] { return cluster.scheduler().started().has_value(); });
                          CHECK(seeder(cluster) == 0U);
                          CHECK(commits(cluster) == 0);
                          cluster.run_until(
                              [&] { return cluster.parameters() != seed_of(0, kCount); });
                          check_well(cluster);
                        });

const EachModel kLossy("seed: messages that are lost, late or twice change nothing", __FILE__,
                       __LINE__, [](const std::string& sync) {
                         for (std::uint64_t seed = 0; seed < 8; ++seed) {
                           CAPTURE(seed);
                           Rng rng(seed);
                           auto options = seeding(sync);
                           options.patient = true;
                           options.copies = [&](const proto::Message&) {
                             const auto draw = rng.below(6);
                             return draw == 0 ? 0 : draw == 1 ? 2 : 1;
                           };
                           CoreCluster cluster(options);
                           cluster.run_until(
                               [&] { return cluster.scheduler().started().has_value(); });
                           REQUIRE(seeder(cluster).has_value());
                           CHECK(commits(cluster) == 0);
                           cluster.run_until([&] { return commits(cluster) > 0; });
                           for (std::size_t i = 0; i < 3; ++i)
                             CHECK_FALSE(cluster.worker(i).failure().has_value());
                         }
                       });

// Worker 0 falls silent at a random instant of the seeding, and is lost; the scheduler's process
// dies at another one, and goes on from its journal.
TEST_CASE("seed: a seeder that is lost at any instant is replaced, and so is a scheduler") {
  int lost = 0;  // while it seeded
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    bool cut = false;
    auto options = seeding(seed % 2 == 0 ? "bsp" : "adsp");
    options.latency = Duration::from_ms(3);
    options.copies = [&](const proto::Message& message) {
      // It says Hello without a number, too.
      const bool its = message.sender.role == proto::Role::Worker && message.incarnation % 100 == 0;
      return cut && its ? 0 : 1;
    };
    CoreCluster cluster(options);
    // Workers that said Hello before the servers were there repeat it after a second.
    cluster.run_for(Duration::from_ms(static_cast<std::int64_t>(1000 + rng.below(40))));
    if (seed % 3 != 0) cut = true;
    if (seed % 4 != 0) {
      cluster.run_for(Duration::from_ms(static_cast<std::int64_t>(rng.below(40))));
      cluster.kill_scheduler();
      cluster.run_until([&] { return !cluster.scheduled(); });
      cluster.run_for(Duration::from_ms(static_cast<std::int64_t>(1 + rng.below(3000))));
      cluster.return_scheduler();
    }
    const bool before = cluster.scheduler().started().has_value();
    // Of three workers that are expected, two are there: the third comes back.
    if (cut && !before) ++lost;
    const Instant back = cluster.now() + Duration::from_seconds(13);
    if (!before) {
      cluster.run_until([&] {
        if (cluster.now() >= back) cut = false;
        return cluster.scheduler().started().has_value();
      });
      REQUIRE(seeder(cluster).has_value());
    }
    cluster.run_until([&] { return commits(cluster) > 0; });
    for (std::size_t i = 0; i < 3; ++i) CHECK_FALSE(cluster.worker(i).failure().has_value());
  }
  CHECK(lost >= 10);
}

}  // namespace
}  // namespace rubato::tests::seeding_tests
