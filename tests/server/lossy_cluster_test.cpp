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

// One worker whose third exchange, a commit of six chunks, meets a loss.
struct Exchange {
  explicit Exchange(const std::string& sync) {
    options.sync = sync;
    options.initial.assign(12, 1.0f);
    options.chunk = 2;
    options.step_times = {Duration::from_ms(50)};
    options.patient = true;
  }
  // Loses messages of the exchange as `lose` says. Returns: seconds until it was over.
  double run(const std::function<bool(const proto::Message&)>& lose) {
    options.copies = [this, lose](const proto::Message& message) {
      const auto* commit = std::get_if<proto::Commit>(&message.body);
      const auto* parameters = std::get_if<proto::Parameters>(&message.body);
      commits += commit && commit->sequence == 3;
      answers += parameters && parameters->sequence == 3;
      return lose(message) ? 0 : 1;
    };
    CoreCluster cluster(options);
    cluster.run_until([&] { return cluster.worker(0).progress().commits == 1; });
    const Instant begin = cluster.now();
    cluster.run_until([&] { return cluster.worker(0).progress().commits == 2; });
    CHECK(cluster.server(0).stats().commits_applied == 2);
    CHECK(cluster.server(0).stats().messages_refused == 0);
    return (cluster.now() - begin).seconds();
  }
  CoreClusterOptions options;
  int commits = 0;  // chunks sent
  int answers = 0;
};

TEST_CASE("a lost message costs itself again, a pause, and no more") {
  for (const std::string sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    // Only the first of them, or also the first Probes about it.
    for (const int lost_probes : {0, 1, 3}) {
      CAPTURE(lost_probes);
      int losses = 0;
      int probes = 0;
      const auto lose_probe = [&](const proto::Message& message) {
        return std::holds_alternative<proto::Probe>(message.body) && probes++ < lost_probes;
      };
      const double pause = 0.5 * (1 + lost_probes);

      Exchange answer(sync);
      CHECK(answer.run([&](const proto::Message& message) {
        const auto* chunk = std::get_if<proto::Parameters>(&message.body);
        return lose_probe(message) ||
               (chunk && chunk->sequence == 3 && chunk->offset == 4 && losses++ < 1);
      }) == doctest::Approx(pause + 0.05).epsilon(0.05));
      CHECK(answer.answers == 6 + 1);
      CHECK(answer.commits == 6);

      losses = probes = 0;
      Exchange update(sync);
      CHECK(update.run([&](const proto::Message& message) {
        const auto* chunk = std::get_if<proto::Commit>(&message.body);
        return lose_probe(message) ||
               (chunk && chunk->sequence == 3 && chunk->offset == 4 && losses++ < 1);
      }) == doctest::Approx(pause + 0.05).epsilon(0.05));
      CHECK(update.answers == 6);
      CHECK(update.commits == 6 + 1);
    }
  }
}

TEST_CASE("lost acknowledgements cost a pause, and nothing is sent again") {
  int losses = 0;
  Exchange exchange("bsp");
  exchange.run([&](const proto::Message& message) {
    const auto* reply = std::get_if<proto::ProbeReply>(&message.body);
    return reply && reply->sequence == 3 && reply->number == 0 && losses++ < 4;
  });
  CHECK(losses > 4);
  CHECK(exchange.commits == 6);
  CHECK(exchange.answers == 6);
}

// A connection that breaks takes along what is under way, both ways and whatever it is.
TEST_CASE("a broken connection: nothing is applied twice, and what was lost is sent once more") {
  for (const std::string sync : {"asp", "bsp"}) {
    for (int after = 0; after < 12; ++after) {
      CAPTURE(sync);
      CAPTURE(after);
      int messages = 0;
      Exchange exchange(sync);
      exchange.run([&](const proto::Message& message) {
        const bool scheduler = message.sender.role == proto::Role::Scheduler;
        if (exchange.commits == 0 || scheduler) return false;
        ++messages;
        return messages > after && messages <= after + 8;
      });
      CHECK(exchange.commits <= 12);
      CHECK(exchange.answers <= 12);
    }
  }
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
