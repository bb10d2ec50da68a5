// A scheduler whose process is killed, and another that goes on from its journal: the same state to
// the bit, and a cluster that trains on under every model.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/rng.hpp"
#include "tests/each_model.hpp"
#include "tests/server/core_cluster.hpp"
#include "tests/server/sent.hpp"

namespace rubato::tests {
namespace {

constexpr std::uint64_t kSeeds = 6;  // of instants and losses

CoreClusterOptions cluster_of_three(const std::string& sync) {
  CoreClusterOptions options;
  options.sync = sync;
  options.servers = 2;
  options.initial = {1, 2, 3, 4, 5, 6, 7};
  options.chunk = 2;
  options.step_times = {Duration::from_ms(50), Duration::from_ms(80), Duration::from_ms(170)};
  return options;
}

// Everything in it, doubles to the bit.
std::string record_text(const RunRecord& record) {
  std::string text = fmt::format("{} {} {} {} {} {} {:a} {:a} {:a} {:a}", record.stop_reason,
                                 record.steps, record.commits, record.bytes_up, record.bytes_down,
                                 record.time_to_target_seconds.value_or(-1), record.seconds,
                                 record.compute_share, record.final_loss, record.heterogeneity);
  for (const auto& w : record.workers)
    text += fmt::format("\n{} {} {} {:a} {:a} {:a} {}", w.id, w.steps, w.commits,
                        w.compute.seconds(), w.wait.seconds(), w.communicate.seconds(), w.fate);
  for (const auto& e : record.evaluations)
    text +=
        fmt::format("\n{:a} {} {} {:a} {:a}", e.seconds, e.steps, e.commits, e.loss, e.accuracy);
  for (const auto& d : record.decisions)
    text += fmt::format("\n{:a} {} {:a} {}", d.seconds, d.quantity, d.value, d.reason);
  for (const auto& c : record.commit_counts)
    text += fmt::format("\n{:a} {}", c.seconds, fmt::join(c.commits, " "));
  return text;
}

// Feeds a new scheduler with the whole journal. Returns: what it says, without receivers.
std::string said_again(const CoreCluster& cluster, scheduler::Scheduler& core) {
  auto reader = scheduler::JournalReader::open(std::as_bytes(std::span(cluster.journal())));
  REQUIRE(reader);
  std::string said;
  while (const auto input = reader->next()) {
    if (input->kind == scheduler::SchedulerInput::Kind::Wakeup)
      core.on_wakeup(input->now);
    else if (input->kind == scheduler::SchedulerInput::Kind::Message)
      core.on_message(input->now, 0, input->message);
    for (const auto& out : sent(core)) said += describe(out.message.body) + "\n";
  }
  return said;
}

// Messages arrive late, twice and in another order, and an evaluator speaks, so that tuners and
// silences have something to do.
const EachModel kSameAgain(
    "journal: what is heard again gives the same words and the same record", __FILE__, __LINE__,
    [](const std::string& sync) {
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        CAPTURE(seed);
        Rng rng(seed);
        auto options = cluster_of_three(sync);
        options.seeds = seed % 2 == 1;
        std::string said;
        options.said = [&](const proto::ToPeer& out) { said += describe(out.message.body) + "\n"; };
        bool lossy = false;
        options.copies = [&](const proto::Message&) {
          const auto draw = lossy ? rng.below(20) : 2;
          return draw == 0 ? 0 : draw == 1 ? 2 : 1;
        };
        CoreCluster cluster(options);
        cluster.run_until([&] { return cluster.scheduler().started().has_value(); });
        lossy = true;
        cluster.run_for(Duration::from_ms(static_cast<std::int64_t>(1 + rng.below(12'000))));
        const auto core = cluster.new_scheduler();
        const std::string again = said_again(cluster, *core);
        // Refused messages are answered, and not in the journal.
        std::string without_refusals;
        for (std::size_t at = 0; at < said.size();) {
          const auto end = said.find('\n', at) + 1;
          const auto line = said.substr(at, end - at);
          if (!line.starts_with("Refusal")) without_refusals += line;
          at = end;
        }
        CHECK(again == without_refusals);
        CHECK(record_text(core->record()) == record_text(cluster.scheduler().record()));
        CHECK(core->poll_wakeup() == cluster.scheduler().poll_wakeup());
      }
    });

std::uint64_t commits_of(const CoreCluster& cluster) {
  std::uint64_t commits = 0;
  for (std::size_t i = 0; i < 3; ++i) commits += cluster.worker(i).progress().commits;
  return commits;
}

const EachModel kTrainsOn(
    "return: the cluster trains on whenever its scheduler is killed", __FILE__, __LINE__,
    [](const std::string& sync) {
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        CAPTURE(seed);
        Rng rng(seed);
        auto options = cluster_of_three(sync);
        options.seeds = seed % 2 == 1;
        CoreCluster cluster(options);
        if (rng.below(4) > 0)
          cluster.run_until([&] { return cluster.scheduler().started().has_value(); });
        for (int death = 0; death < 3; ++death) {
          cluster.run_for(Duration::from_ms(static_cast<std::int64_t>(rng.below(3'000))));
          cluster.kill_scheduler();
          cluster.run_until([&] { return !cluster.scheduled(); });
          cluster.run_for(Duration::from_ms(static_cast<std::int64_t>(1 + rng.below(13'000))));
          cluster.return_scheduler();
        }
        cluster.run_for(Duration::from_seconds(12));
        CHECK(cluster.scheduler().started().has_value());
        const std::uint64_t then = commits_of(cluster);
        cluster.run_for(Duration::from_seconds(20));
        CHECK(commits_of(cluster) > then);
        CHECK(!cluster.scheduler().stopped());
        for (std::size_t i = 0; i < 3; ++i) CHECK(!cluster.worker(i).failure());
        for (std::size_t i = 0; i < 2; ++i) {
          CHECK(!cluster.server(i).failure());
          CHECK(cluster.server(i).stats().messages_refused == 0U);
        }
        // The totals are those of the workers, but for what is on its way.
        const auto record = cluster.scheduler().record();
        CHECK(record.workers.size() == 3U);
        CHECK(record.commits <= commits_of(cluster));
        CHECK(record.commits + 3 >= commits_of(cluster));
      }
    });

TEST_CASE("return: under BSP the shards reach the bits of a run whose scheduler never died") {
  constexpr std::size_t kVersions = 3 * 40;
  CoreCluster clean(cluster_of_three("bsp"));
  clean.run_until([&] { return clean.all_at_version(kVersions); });
  CoreCluster cluster(cluster_of_three("bsp"));
  for (std::size_t version = 6; version <= 96; version += 30) {
    cluster.run_until([&] { return cluster.all_at_version(version); });
    cluster.kill_scheduler();
    cluster.run_for(Duration::from_ms(700));
    cluster.return_scheduler();
  }
  cluster.run_until([&] { return cluster.all_at_version(kVersions); });
  CHECK(cluster.parameters() == clean.parameters());
}

TEST_CASE("return: a worker that died meanwhile is declared lost, and the round closes") {
  auto options = cluster_of_three("bsp");
  bool cut = false;
  options.copies = [&](const proto::Message& message) {
    return cut && message.sender == proto::NodeId{proto::Role::Worker, 2} ? 0 : 1;
  };
  CoreCluster cluster(options);
  cluster.run_until([&] { return cluster.all_at_version(9); });
  cluster.kill_scheduler();
  cluster.run_until([&] { return !cluster.scheduled(); });
  cut = true;
  cluster.run_for(Duration::from_seconds(5));
  const std::uint64_t held = commits_of(cluster);
  cluster.return_scheduler();
  cluster.run_for(Duration::from_seconds(8));
  CHECK(commits_of(cluster) <= held);
  cluster.run_for(Duration::from_seconds(6));
  CHECK(commits_of(cluster) > held);
  CHECK(cluster.scheduler().record().workers[2].fate == "lost");
}

}  // namespace
}  // namespace rubato::tests
