#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "cli/whatif/changes.hpp"
#include "cli/whatif/forecast.hpp"
#include "sync/factory.hpp"

namespace rubato::cli::whatif::tests {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::string kCluster = R"(
name = "home"
[[workers]]
name = "pi"
count = 2
step_seconds = 0.5
latency_seconds = 0.1
[[workers]]
name = "laptop"
step_seconds = 0.1
[stop]
target_loss = 0.5
max_seconds = 60
)";
const std::string kCatalog = R"(
[[links]]
name = "wifi"
latency_seconds = 0.01
up_mbps = 20
down_mbps = 20
source = "made up"
)";

Base base_of(const std::string& sync = "asp") {
  Base base;
  base.source = {"home.toml", kCluster, kCatalog};
  base.sync = sync;
  REQUIRE(read_base(base, "as it is"));
  return base;
}

std::vector<std::string> rows_of(const std::vector<Change>& changes) {
  std::vector<std::string> names;
  for (const Change& change : changes) names.push_back(change.name);
  return names;
}

std::string refused(const Asked& asked) {
  const Base base = base_of();
  const auto changes = asked_changes(base, asked);
  if (!changes) return changes.error().message;
  const auto variant = apply(base, changes->front());
  REQUIRE_FALSE(variant.has_value());
  return variant.error().message;
}

// A run of two workers that took `seconds` to the target.
RunRecord run_of(double seconds, std::uint64_t steps, double wait = 0.1) {
  RunRecord run;
  run.time_to_target_seconds = seconds;
  run.seconds = seconds;
  run.steps = steps;
  run.commits = steps / 2;
  run.bytes_up = run.bytes_down = 10 * steps;
  run.compute_share = 0.9 - wait;
  run.wait_share = wait;
  run.communicate_share = 0.1;
  run.workers.resize(2);
  run.workers[0].joules = 3;
  run.workers[1].joules = 4;
  return run;
}

TEST_CASE("whatif: each option is one change of the cluster") {
  const Base base = base_of();
  const auto changes = asked_changes(base, {.set = {"training.batch=64,wire.up=f16"},
                                            .sync = {"bsp", "adsp"},
                                            .add = 4,
                                            .like = "pi-0",
                                            .without = {"laptop"},
                                            .links = {"pi=wifi"},
                                            .codecs = {"int8"}});
  REQUIRE(changes.has_value());
  CHECK(rows_of(*changes) == std::vector<std::string>{"training.batch=64, wire.up=f16", "BSP",
                                                      "ADSP", "4 more like pi-0", "without laptop",
                                                      "pi on wifi", "codec int8"});
  std::vector<Variant> variants;
  for (const Change& change : *changes) {
    auto variant = apply(base, change);
    REQUIRE_MESSAGE(variant.has_value(), variant.error().message);
    variants.push_back(std::move(*variant));
  }
  CHECK(variants[0].config.training.batch == 64);
  CHECK(variants[0].config.workers[0].codecs.up.codec == proto::PayloadCodec::F16);
  CHECK(variants[1].sync == "bsp");
  CHECK(variants[3].config.worker_count() == 7);
  CHECK(variants[4].config.worker_count() == 2);
  CHECK(variants[5].config.workers[0].link.latency_seconds == 0.01);
  CHECK(variants[6].config.training.batch == base.variant.config.training.batch);
}

TEST_CASE("whatif: what nobody can try is refused in one line") {
  CHECK(refused({.without = {"phone"}}) ==
        "without phone: phone is no worker or group of the cluster; valid: pi, pi-0, pi-1, laptop");
  CHECK(refused({.sync = {"asp"}}) == "ASP: the cluster is so already; ask for another change");
  CHECK(refused({.sync = {"bps"}}).find("did you mean bsp?") != std::string::npos);
  CHECK(refused({.set = {"training.batch"}}) ==
        "--set training.batch: write KEY=VALUE, such as training.batch=64");
  CHECK(refused({.set = {"training.bach=3"}}).find("did you mean batch?") != std::string::npos);
  CHECK(refused({.links = {"pi=wify"}}) ==
        "--link pi=wify: wify is no link of the catalog; did you mean wifi?");
  CHECK(refused({.codecs = {"f32"}}) == "codec f32: all workers use f32 already");
}

TEST_CASE("whatif: all single changes, equal workers once, nothing that is so already") {
  const Base base = base_of();
  std::string possible;
  for (const Change& change : single_changes(base))
    if (apply(base, change)) possible += change.name + "\n";
  std::string models;
  for (const std::string& model : sync::compared_models())
    if (model != base.sync) models += std::string(sync::find_model(model)->title) + "\n";
  CHECK(possible ==
        "without one of 2 pi\nwithout laptop\nlink of pi twice as fast\ncodec f16\ncodec int8\n"
        "codec top-k\n" +
            models + "2 servers\nall on one machine (shared memory)\n");
}

TEST_CASE("whatif: what the runs add up to") {
  const Forecast f = forecast("as it is", {run_of(10, 100), run_of(12, 100), run_of(11, 100)});
  CHECK(f.time == 11);
  CHECK(f.reached == 3);
  CHECK(f.interval.low == 10);
  CHECK(f.interval.high == 12);
  CHECK(f.step_seconds == doctest::Approx(2 * 11 / 100.0));  // two workers
  CHECK(f.commit_seconds == doctest::Approx(2 * 11 / 50.0));
  CHECK(f.bytes == 2000);
  REQUIRE(f.joules.has_value());
  CHECK(*f.joules == 7);
  RunRecord unknown = run_of(10, 100);
  unknown.workers[0].joules.reset();
  CHECK_FALSE(forecast("some say nothing", {unknown}).joules.has_value());
  CHECK(f.wait_share == doctest::Approx(0.1));
}

TEST_CASE("whatif: the reason names the steps a second, the share that changed, the steps needed") {
  const Forecast base = forecast("as it is", {run_of(100, 1000, 0.4), run_of(101, 1000, 0.4)});
  const Effect quick =
      effect(base, forecast("quick", {run_of(50, 1100, 0.02), run_of(51, 1100, 0.02)}));
  CHECK(quick.ratio == doctest::Approx(50.5 / 100.5));
  CHECK(quick.sure);
  CHECK(quick.reason ==
        "119 % more steps a second; waiting for others takes 2 % of the workers' time, not 40 %; "
        "10 % more steps to the target");
  CHECK(effect_text(quick) == "49.8 % less time");
  const Effect same = effect(base, base);
  CHECK(same.nothing);
  CHECK(effect_text(same) == "the same");
  const Effect chance =
      effect(base, forecast("close", {run_of(99, 1000, 0.4), run_of(102, 1000, 0.4)}));
  CHECK_FALSE(chance.sure);
  RunRecord lost = run_of(100, 1000);
  lost.time_to_target_seconds.reset();
  const Effect missed = effect(base, forecast("lost", {lost, lost}));
  CHECK(missed.ratio == kInfinity);
  CHECK(effect_text(missed) == "misses the target");
}

TEST_CASE("whatif: what helps most is first, and what does not help is counted") {
  const Forecast base = forecast("as it is", {run_of(100, 1000), run_of(101, 1000)});
  const std::vector<Forecast> changes{forecast("slower", {run_of(120, 1000), run_of(121, 1000)}),
                                      forecast("best", {run_of(40, 1000), run_of(41, 1000)}),
                                      forecast("good", {run_of(80, 1000), run_of(81, 1000)}), base};
  std::vector<Effect> effects;
  for (const Forecast& change : changes) effects.push_back(effect(base, change));
  CHECK(ranking(effects) == std::vector<std::size_t>{1, 2, 3, 0});
  CHECK(ranking_text(changes, effects) ==
        "1. best: 59.7 % less time; 148 % more steps a second.\n"
        "2. good: 19.9 % less time; 25 % more steps a second.\n"
        "2 changes are of no help.\n");
}

TEST_CASE("whatif: without a target the table has no time to it") {
  const Forecast base = forecast("as it is", {run_of(100, 1000)});
  CHECK(forecast_table(base, {base}, true).find("To target") != std::string::npos);
  const std::string table = forecast_table(base, {base}, false);
  CHECK(table.find("To target") == std::string::npos);
  CHECK(table.find("A commit") != std::string::npos);
}

}  // namespace
}  // namespace rubato::cli::whatif::tests
