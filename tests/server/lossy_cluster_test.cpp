// Exactly once, end to end: whatever messages are lost or arrive twice between the cores, a BSP run
// reaches the same bits as without any loss, and every asynchronous commit is applied once.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "base/rng.hpp"
#include "tests/server/core_cluster.hpp"

namespace rubato::tests {
namespace {

// `early`: with early steps, on six servers, more than the least credit has chunks.
CoreClusterOptions three_workers(bool early = false) {
  CoreClusterOptions options;
  options.servers = early ? 6 : 2;
  options.early = early;
  options.initial = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  if (early) options.initial.resize(6 * 4);
  options.chunk = 2;
  options.step_times = {Duration::from_ms(50), Duration::from_ms(80), Duration::from_ms(170)};
  options.patient = true;
  return options;
}

// A fifth of all messages is lost, a fifth arrives twice.
int bad_link(Rng& rng) {
  const auto draw = rng.below(5);
  return draw == 0 ? 0 : draw == 1 ? 2 : 1;
}

constexpr std::size_t kWorkers = 3;
constexpr std::size_t kRounds = 5;

void check_bsp(bool early) {
  auto lossless = three_workers(early);
  lossless.early = false;
  CoreCluster clean(lossless);
  clean.run_until([&] { return clean.all_at_version(kWorkers * kRounds); });

  CHECK(rc::check("BSP with losses and duplicates", [&] {
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    auto options = three_workers(early);
    bool lossy = false;  // from the start on: workers get their ids in the order of joining
    options.copies = [&](const proto::Message&) { return lossy ? bad_link(rng) : 1; };
    CoreCluster cluster(options);
    cluster.run_until([&] { return cluster.scheduler().started().has_value(); });
    lossy = true;
    cluster.run_until([&] { return cluster.all_at_version(kWorkers * kRounds); });
    RC_ASSERT(cluster.parameters() == clean.parameters());
    for (std::size_t i = 0; i < kWorkers; ++i) RC_ASSERT(!cluster.worker(i).failure());
    RC_ASSERT(cluster.server(0).stats().messages_refused == 0U);
  }));
}

void check_asp(bool early) {
  CHECK(rc::check("ASP with losses and duplicates", [&] {
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    auto options = three_workers(early);
    options.sync = "asp";
    options.copies = [&](const proto::Message&) { return bad_link(rng); };
    CoreCluster cluster(options);
    cluster.run_until([&] { return cluster.all_at_version(30); });
    std::uint64_t answered = 0;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      RC_ASSERT(!cluster.worker(i).failure());
      answered += cluster.worker(i).progress().commits;
    }
    // What is applied but not yet answered is at most one commit a worker.
    for (std::size_t i = 0; i < options.servers; ++i) {
      RC_ASSERT(cluster.server(i).version() >= answered);
      RC_ASSERT(cluster.server(i).version() <= answered + kWorkers);
    }
  }));
}

TEST_CASE("lossy links: a BSP run reaches the bits of the lossless run") {
  check_bsp(false);
}

TEST_CASE("lossy links: with early steps and chunks by need, a BSP run reaches the same bits") {
  check_bsp(true);
}

TEST_CASE("lossy links: all get in, and under ASP each shard applies each commit exactly once") {
  check_asp(false);
}

TEST_CASE("lossy links: with early steps and chunks by need, each commit is applied exactly once") {
  check_asp(true);
}

TEST_CASE("an outage: BSP goes on without the worker, which joins again and trains on") {
  auto options = three_workers();
  options.patient = false;
  bool cut = false;  // nothing that worker 1 says gets out
  options.copies = [&](const proto::Message& message) {
    return cut && message.sender == proto::NodeId{proto::Role::Worker, 1} ? 0 : 1;
  };
  CoreCluster cluster(options);
  cluster.run_for(Duration::from_seconds(3));
  cut = true;
  cluster.run_for(Duration::from_seconds(13));
  const auto without = cluster.server(0).version();
  cluster.run_for(Duration::from_seconds(3));
  CHECK(cluster.server(0).version() > without);
  CHECK(cluster.worker(1).id() == proto::NodeId{proto::Role::Worker, 1});

  cut = false;
  cluster.run_for(Duration::from_seconds(5));
  CHECK(cluster.worker(1).id() == proto::NodeId{proto::Role::Worker, 3});
  const RunRecord record = cluster.scheduler().record();
  REQUIRE(record.workers.size() == 4);
  CHECK(record.workers[1].fate == "lost");
  CHECK(record.workers[3].id == "edge-1");
  CHECK(record.workers[3].commits > 10);
  for (std::size_t i = 0; i < kWorkers; ++i) CHECK_FALSE(cluster.worker(i).failure().has_value());
}

}  // namespace
}  // namespace rubato::tests
