#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/file.hpp"
#include "tests/simulation/kinds.hpp"
#include "tests/simulation/simulate.hpp"

namespace rubato::simulation {
namespace {

constexpr std::uint64_t kSeeds = 400;
constexpr std::uint64_t kBugSeeds = 400;

std::string text_of(const Outcome& outcome) {
  std::string text;
  for (const auto& [kind, violation] : outcome.violations)
    text += fmt::format("{} at {:.3f} s: {}\n", kind, violation.at.seconds(), violation.what);
  return text;
}

Plan plan_of(const std::filesystem::path& file) {
  const auto text = read_file(file.string());
  REQUIRE(text);
  const auto plan = read_plan(*text, file.string());
  REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
  return *plan;
}

void check_seeds(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const Outcome outcome = simulate(make_plan(seed));
    INFO("seed ", seed, ": ", text_of(outcome));
    CHECK(outcome.violations.empty());
    for (const auto& [kind, violation] : outcome.violations)
      CHECK(std::ranges::find(violation_kinds(), kind, &KindRow::kind) != violation_kinds().end());
  }
}

}  // namespace

// Two cases, so that two processors share them.
TEST_CASE("no promise is broken: the first half of the seeds") {
  check_seeds(1, kSeeds / 2);
}

TEST_CASE("no promise is broken: the second half of the seeds") {
  check_seeds(kSeeds / 2 + 1, kSeeds);
}

TEST_CASE("a seed gives the same history to the byte") {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    std::string traces[2];
    std::uint64_t hashes[2] = {};
    for (int run = 0; run < 2; ++run)
      hashes[run] = simulate(make_plan(seed), Bug::None, [&](Instant now, const std::string& text) {
                      traces[run] += fmt::format("{} {}\n", now.ns, text);
                    }).hash;
    CHECK(hashes[0] == hashes[1]);
    CHECK(traces[0] == traces[1]);
    CHECK(traces[0].size() > 10'000);
    // Nobody listens to the lines, and everything happens all the same.
    CHECK(simulate(make_plan(seed)).hash == hashes[0]);
    CHECK(simulate(make_plan(seed + 1)).hash != hashes[0]);
  }
}

TEST_CASE("each planted bug is found within 400 seeds") {
  for (const BugRow& row : planted_bugs()) {
    const std::string kind(row.found_as);
    std::uint64_t found = 0;
    for (std::uint64_t seed = 1; seed <= kBugSeeds && found == 0; ++seed) {
      const Plan plan = make_plan(seed);
      if (simulate(plan, row.bug).violations.contains(kind) &&
          !simulate(plan).violations.contains(kind))
        found = seed;
    }
    INFO(row.name, " is to be found as ", kind);
    CHECK(found > 0);
  }
}

// A process is killed between a write and its sync. The next one reads the bytes from the cache,
// and answers behind them. Then the power goes.
TEST_CASE("answered commits are lost if a new process trusts the system's cache, and else not") {
  int lost = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    Plan plan;
    plan.seed = seed;
    plan.sync = "asp";
    plan.workers = 3;
    plan.journal = true;
    plan.step_seconds = {0.3, 0.5, 0.7};
    plan.faults = {
        {.kind = FaultKind::SlowDisk, .at = 18, .node = "server-0", .lasts = 30, .amount = 8},
        {.kind = FaultKind::PowerAfterKill,
         .at = 20 + 0.03 * static_cast<double>(seed),
         .node = "server-0",
         .lasts = 0.5,
         .amount = 4}};
    const Outcome good = simulate(plan);
    INFO("seed ", seed, ": ", text_of(good));
    CHECK(good.violations.empty());
    const Outcome bad = simulate(plan, Bug::TrustsCache);
    if (bad.violations.contains("answered-lost")) ++lost;
  }
  CHECK(lost > 3);
}

TEST_CASE("a plan is shrunk to the faults that matter") {
  // A bug that only shows when the scheduler comes back.
  Plan plan = make_plan(1);
  std::uint64_t seed = 1;
  const auto shows = [](const Plan& each) {
    return simulate(each, Bug::UnwrittenInput).violations.contains("replay-differs");
  };
  while (plan.faults.size() < 8 || !shows(plan)) plan = make_plan(++seed);
  const Plan small = shrink(plan, "replay-differs", Bug::UnwrittenInput);
  CHECK(shows(small));
  CHECK(small.faults.size() == 1);
  CHECK(small.servers == 1);
  INFO(to_toml(small));
}

// docs/testing.md has the whole table.
TEST_CASE("lost messages and broken connections cost a part of the commits, not nearly all") {
  for (const std::string sync : {"bsp", "ssp", "asp", "adsp", "tempo"}) {
    CAPTURE(sync);
    const auto commits = [&](double loss, double resets) {
      return simulate(make_steady_plan(sync, 1, loss, resets)).commits;
    };
    const int undisturbed = commits(0, 0);
    CHECK(4 * commits(0.3, 0) >= undisturbed);
    CHECK(2 * commits(0, 4) >= undisturbed);
  }
}

TEST_CASE("a plan survives its document") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Plan plan = make_plan(seed);
    const auto again = read_plan(to_toml(plan), "plan.toml");
    REQUIRE_MESSAGE(again, (again ? "" : again.error().message));
    CHECK(*again == plan);
  }
}

TEST_CASE("a document that is no plan is refused in one line") {
  const auto refused = [](const std::string& text) {
    const auto plan = read_plan(text, "plan.toml");
    REQUIRE(!plan);
    return plan.error().message;
  };
  const std::string good = to_toml(make_plan(1));
  CHECK(refused("sync = \"tempus\"").find("plan.toml:1: sync") == 0);
  CHECK(refused("servers = 1\nworkers = 2\nstep_seconds = \"1\"").find("step_seconds") !=
        std::string::npos);
  CHECK(refused(good + "\n[[fault]]\nkind = \"kill\"\nat = 1\n").find("must name a node") !=
        std::string::npos);
  CHECK(refused(good + "\n[[fault]]\nkind = \"flood\"\nat = 1\n").find("kind") !=
        std::string::npos);
}

// The name of a file begins with its kind: left-out.held-heartbeats.toml.
TEST_CASE("what was mended stays so") {
  int plans = 0;
  for (const auto& entry : std::filesystem::directory_iterator(RUBATO_MUSEUM)) {
    const std::string name = entry.path().stem().string();
    const Outcome outcome = simulate(plan_of(entry.path()));
    INFO(name, " shows:\n", text_of(outcome));
    CHECK(!outcome.violations.contains(name.substr(0, name.find('.'))));
    ++plans;
  }
  CHECK(plans > 20);
}

}  // namespace rubato::simulation
