#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "cli/whatif/fit.hpp"
#include "cli/whatif/fitted_file.hpp"
#include "cli/whatif/replayed.hpp"

namespace rubato::cli::whatif::fit_tests {
namespace {

using scheduler::RunSample;

// A lognormal factor of mean 1.
double factor(Rng& rng, double deviation) {
  const double scale = std::sqrt(std::log1p(deviation * deviation));
  return std::exp(scale * rng.normal() - scale * scale / 2);
}

// Samples of `count` windows, of 5 to 14 steps each. `mean(t)`: of a step that begins at t.
template <class Mean>
std::vector<RunSample> samples_of(const std::string& worker, int count, double jitter,
                                  const Mean& mean) {
  Rng rng(7);
  std::vector<RunSample> samples;
  double now = 0;
  for (int i = 0; i < count; ++i) {
    RunSample sample{.worker = worker, .commits = 2, .round_trip = 0.25};
    sample.steps = 5 + static_cast<std::uint64_t>(10 * rng.uniform());
    for (std::uint64_t k = 0; k < sample.steps; ++k) {
      const double takes = mean(now) * factor(rng, jitter);
      sample.compute += takes;
      now += takes;
    }
    sample.seconds = now;
    samples.push_back(sample);
  }
  return samples;
}

const std::string kCluster = R"(
worker_count = 3
[[workers]]
name = "pi"
count = 2
step_seconds = 0.5
latency_seconds = 0.1
up_mbps = 8
jitter = 0.3
[[workers]]
name = "laptop"
step_seconds = 0.1
[servers]
latency_seconds = 0.01
[stop]
max_seconds = 60
)";

cluster::ClusterSource source() {
  return {"/home/me/c.toml", kCluster, ""};
}

Result<cluster::ClusterConfig> fitted(const std::vector<WorkerFit>& workers, const LinkFit& links,
                                      const RunRecord& record) {
  return cluster::parse_cluster(kCluster, "c.toml", "", {}, {}, [&](cluster::ClusterConfig& c) {
    return apply_fit(c, workers, links, record);
  });
}

RunRecord record_of(const std::vector<WorkerRecord>& workers) {
  RunRecord record;
  record.seconds = 60;
  record.workers = workers;
  return record;
}

WorkerRecord life(const std::string& name) {
  WorkerRecord worker;
  worker.id = name;
  return worker;
}

TEST_CASE("fit: times that scatter become a mean and a deviation") {
  for (const double jitter : {0.05, 0.3, 0.8}) {
    CAPTURE(jitter);
    const auto fits = fit_workers(samples_of("pi", 2000, jitter, [](double) { return 0.5; }));
    REQUIRE(fits.size() == 1);
    CHECK(fits[0].worker == "pi");
    CHECK(fits[0].step_seconds == doctest::Approx(0.5).epsilon(0.02));
    CHECK(fits[0].jitter == doctest::Approx(jitter).epsilon(0.1));
    CHECK(fits[0].speed.empty());
    CHECK(fits[0].round_trip == doctest::Approx(0.25));
    CHECK(fits[0].commits == 4000);
  }
}

TEST_CASE("fit: times that are all alike have no deviation") {
  const auto fits = fit_workers(samples_of("pi", 50, 0, [](double) { return 0.5; }));
  REQUIRE(fits.size() == 1);
  CHECK(fits[0].jitter == doctest::Approx(0).epsilon(1e-6));
  CHECK(fits[0].speed.empty());
}

TEST_CASE("fit: times that drift become a trace of speed") {
  const auto fits =
      fit_workers(samples_of("pi", 200, 0.02, [](double t) { return t < 500 ? 0.4 : 0.8; }));
  REQUIRE(fits.size() == 1);
  REQUIRE_FALSE(fits[0].speed.empty());
  CHECK(fits[0].jitter == 0);
  CHECK(fits[0].speed.front().at == Duration{});
  const cluster::ValueTrace trace(fits[0].speed);
  const auto step = [&](double t) {
    return fits[0].step_seconds / trace.at(Duration::from_seconds(t));
  };
  CHECK(step(100) == doctest::Approx(0.4).epsilon(0.05));
  CHECK(step(900) == doctest::Approx(0.8).epsilon(0.05));
}

TEST_CASE("fit: links move by half of what a round trip lacks, or had no effect") {
  const std::vector<WorkerFit> measured{{.worker = "pi-0", .commits = 3, .round_trip = 0.3},
                                        {.worker = "pi-1", .commits = 3, .round_trip = 0.1}};
  const auto played = [](double one, double other) {
    return Replays{{{.worker = "pi-0", .commits = 3, .round_trip = one},
                    {.worker = "pi-1", .commits = 3, .round_trip = other}}};
  };
  const LinkFit first = fit_links({}, measured, played(0.2, 0.12));
  CHECK_FALSE(first.unshaped);
  CHECK(first.more_latency.at("pi-0") == doctest::Approx(0.05));
  CHECK(first.more_latency.at("pi-1") == doctest::Approx(-0.01));
  const LinkFit second = fit_links(first, measured, played(0.28, 0.1));
  CHECK(second.more_latency.at("pi-0") == doctest::Approx(0.06));
  CHECK(fit_links({}, measured, played(3, 2)).unshaped);
  CHECK_FALSE(links_fit(measured, played(0.28, 0.1)));
  CHECK(links_fit(measured, played(0.299, 0.1005)));
}

TEST_CASE("fit: links stay where seeds differ by more than the round trip is off") {
  const std::vector<WorkerFit> measured{{.worker = "pi-0", .commits = 3, .round_trip = 0.3},
                                        {.worker = "pi-1", .commits = 3, .round_trip = 0.3}};
  const auto seed = [](double one, double other) {
    return std::vector<WorkerFit>{{.worker = "pi-0", .commits = 3, .round_trip = one},
                                  {.worker = "pi-1", .commits = 3, .round_trip = other}};
  };
  const Replays replays{seed(0.34, 0.22), seed(0.28, 0.24)};
  CHECK_FALSE(links_fit(measured, replays));
  const LinkFit fit = fit_links({}, measured, replays);
  CHECK_FALSE(fit.more_latency.contains("pi-0"));
  CHECK(fit.more_latency.at("pi-1") == doctest::Approx(0.035));
  // A seed in which a worker made no commit says nothing of it.
  const Replays once{seed(0.3, 0.3), {{.worker = "pi-0", .commits = 0}}};
  CHECK(links_fit(measured, once));
}

TEST_CASE("fit: the cluster becomes what was measured, and who came and went is in it") {
  WorkerRecord left = life("pi-1");
  left.fate = "left";
  left.left_seconds = 20;
  WorkerRecord lost = life("laptop");
  lost.joined_seconds = 5;
  lost.left_seconds = 40;
  lost.fate = "lost";
  const std::vector<WorkerFit> workers{
      {.worker = "pi-0", .step_seconds = 0.7, .jitter = 0.1},
      {.worker = "pi-1",
       .step_seconds = 0.6,
       .speed = {{Duration{}, 1}, {Duration::from_seconds(9), 2}}},
      // Missed at 40 s, and last heard at 31 s.
      {.worker = "laptop", .step_seconds = 0.1, .heard = {4, 12, 31, 50}}};
  const auto config = fitted(workers, {.more_latency = {{"pi-0", 0.05}, {"pi-1", -1}}},
                             record_of({life("pi-0"), left, lost}));
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  const auto profiles = cluster::worker_profiles(*config);
  REQUIRE(profiles.size() == 3);
  CHECK(profiles[0].device.step_seconds == 0.7);
  CHECK(profiles[0].device.jitter == 0.1);
  CHECK(profiles[0].link.latency_seconds == doctest::Approx(0.15));
  CHECK(profiles[1].link.latency_seconds == 0);
  REQUIRE(profiles[1].trace);
  CHECK(profiles[1].trace->speed.at(Duration::from_seconds(10)) == 2);
  std::string events;
  for (const auto& event : config->churn)
    events += fmt::format("{:g} {}\n", event.at_seconds, describe(event));
  CHECK(events == "5 laptop joins\n20 pi-1 leaves\n31 laptop crashes\n");

  const auto fewer = fitted(workers, {.unshaped = true}, record_of({life("pi-0"), life("pi-1")}));
  REQUIRE(fewer.has_value());
  CHECK(fewer->worker_count() == 2);
  CHECK_FALSE(cluster::names_links(*fewer));
}

TEST_CASE("fit: a step follows another batch or model as it does in the file") {
  const std::string devices = R"(
[[workers]]
name = "pi"
count = 2
device = "board"
[[workers]]
name = "laptop"
step_seconds = 0.1
[stop]
max_seconds = 60
)";
  const std::string catalog = R"(
[[devices]]
name = "board"
gflops = 1.0
efficiency = 0.5
source = "a test"
)";
  const auto parse = [&](const std::vector<Setting>& settings, const cluster::ClusterChange& edit) {
    auto config = cluster::parse_cluster(devices, "c.toml", catalog, settings, {}, edit);
    REQUIRE_MESSAGE(config.has_value(), config.error().message);
    return cluster::worker_profiles(*config);
  };
  const auto file = cluster::parse_cluster(devices, "c.toml", catalog);
  REQUIRE_MESSAGE(file.has_value(), file.error().message);
  const double asked = cluster::worker_profiles(*file)[0].device.step_seconds;
  // pi-0 needed a tenth more than its row says. Nobody heard of pi-1's steps.
  std::vector<WorkerFit> workers{{.worker = "pi-0", .step_seconds = 1.1 * asked},
                                 {.worker = "laptop", .step_seconds = 0.12}};
  add_file_steps(workers, *file);
  CHECK(workers[0].file_step == asked);
  CHECK(workers[1].file_step == 0.1);
  const auto edit = [&](cluster::ClusterConfig& c) {
    return apply_fit(c, workers, {}, record_of({life("pi-0"), life("pi-1"), life("laptop")}));
  };
  const auto same = parse({}, edit);
  CHECK(same[0].device.step_seconds == doctest::Approx(1.1 * asked));
  CHECK(same[2].device.step_seconds == doctest::Approx(0.12));
  const auto larger = parse({{"training.batch", "64"}}, edit);
  CHECK(larger[0].device.step_seconds == doctest::Approx(2.2 * asked));
  CHECK(larger[1].device.step_seconds == doctest::Approx(2 * asked));
  // `step_seconds` is the time of a mini-batch, whatever its size.
  CHECK(larger[2].device.step_seconds == doctest::Approx(0.12));
}

TEST_CASE("fit: a worker of [[churn]] joined when its process was there") {
  const std::string churn =
      "[[churn]]\nat = 10\nworker = 'laptop'\ndo = 'leave'\n"
      "[[churn]]\nat = 40\nworker = 'laptop'\ndo = 'join'\n";
  WorkerRecord first = life("laptop");
  first.left_seconds = 10;
  first.fate = "left";
  WorkerRecord second = life("laptop");
  second.joined_seconds = 41.5;
  const RunRecord record = record_of({life("pi-0"), life("pi-1"), first, second});
  const auto config = cluster::parse_cluster(
      kCluster + churn, "c.toml", "", {}, {},
      [&](cluster::ClusterConfig& c) { return apply_fit(c, {}, {}, record); });
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  REQUIRE(config->churn.size() == 2);
  CHECK(config->churn[0].at_seconds == 10);
  CHECK(config->churn[1].at_seconds == 41.5);
}

TEST_CASE("fit: the cluster file that is written says the same") {
  const std::vector<WorkerFit> workers{{.worker = "pi-0", .step_seconds = 0.7, .jitter = 0.1},
                                       {.worker = "pi-1",
                                        .step_seconds = 0.6,
                                        .speed = {{Duration{}, 1}, {Duration::from_seconds(9), 2}}},
                                       {.worker = "laptop", .step_seconds = 0.2}};
  WorkerRecord left = life("pi-1");
  left.fate = "left";
  left.left_seconds = 20;
  const auto config = fitted(workers, {}, record_of({life("pi-0"), left, life("laptop")}));
  REQUIRE(config.has_value());
  const auto file = fitted_file(source(), *config, "fitted");
  REQUIRE_MESSAGE(file.has_value(), file.error().message);
  REQUIRE(file->traces.size() == 1);
  CHECK(file->traces[0].name == "fitted-pi-1-speed.csv");
  CHECK(file->traces[0].text.find("speed") != std::string::npos);
  std::string text = file->text;
  const std::string line = "trace = [\"fitted-pi-1-speed.csv\"]\n";
  REQUIRE(text.find(line) != std::string::npos);
  text.erase(text.find(line), line.size());
  const auto again = cluster::parse_cluster(text, "fitted.toml", "");
  REQUIRE_MESSAGE(again.has_value(), again.error().message);
  REQUIRE(again->worker_count() == 3);
  for (int i = 0; i < 3; ++i) {
    const auto& one = config->workers[static_cast<std::size_t>(i)];
    const auto& other = again->workers[static_cast<std::size_t>(i)];
    CHECK(one.name == other.name);
    CHECK(one.device.step_seconds == doctest::Approx(other.device.step_seconds));
    CHECK(one.device.jitter == doctest::Approx(other.device.jitter));
    CHECK(one.link.up_bytes_per_second == doctest::Approx(other.link.up_bytes_per_second));
    CHECK(one.link.latency_seconds == doctest::Approx(other.link.latency_seconds));
  }
  CHECK(again->churn.size() == 1);
  CHECK(again->servers.link.latency_seconds == doctest::Approx(0.01));
}

TEST_CASE("replay: each figure beside the measured one, and the one that is off most") {
  const auto run = [](std::uint64_t steps, std::uint64_t commits, double wait) {
    WorkerRecord worker = life("pi");
    worker.steps = steps;
    worker.commits = commits;
    worker.compute = Duration::from_seconds(60 - wait);
    worker.wait = Duration::from_seconds(wait);
    RunRecord record = record_of({worker});
    record.time_to_target_seconds = 50;
    return record;
  };
  const Replayed all =
      replayed(run(100, 50, 6), {run(101, 50, 6), run(103, 52, 6)}, {run(100, 50, 6)});
  CHECK(all.all.steps.replayed == 102);
  CHECK(all.all.steps.off() == doctest::Approx(0.02));
  CHECK(all.all.commits.off() == doctest::Approx(0.02));
  CHECK(all.all.wait.off() == doctest::Approx(0));
  REQUIRE(all.time.has_value());
  CHECK(all.time->off() == 0);
  CHECK(time_text(all) ==
        "Time to the target: measured 50.0 s, replayed 50.0 s (50.0 s to 50.0 s)");
  const Replayed waits = replayed(run(100, 50, 6), {run(100, 50, 12)}, {});
  CHECK(worst_text(waits).starts_with("Explained worst: share of "));
  CHECK(worst_text(waits).ends_with("10.0 points off."));
  CHECK_FALSE(waits.time.has_value());
  // Commits differ from seed to seed, and steps never come to what was measured.
  const Replayed seeds = replayed(run(100, 50, 6), {run(104, 40, 6), run(103, 60, 6)}, {});
  CHECK(seeds.all.commits.usual());
  CHECK(worst(seeds).name.starts_with("steps of "));
  const Replayed spread = replayed(run(100, 50, 6), {run(100, 46, 6), run(100, 70, 6)}, {});
  CHECK(worst_text(spread) ==
        "Explained worst: commits of pi, measured 50, replayed 58, 16.0 % off, "
        "within the seeds' range.");
  for (const char* cell : {"10.0 %", "20.0 %"})
    CHECK(replayed_table(waits).find(cell) != std::string::npos);
}

TEST_CASE("replay: the first decision that the tuner took otherwise") {
  RunRecord real = record_of({life("pi")});
  real.decisions = {{0, "commit rate", 4, "probe"}, {1, "commit rate", 4, "0.039 s"}};
  RunRecord same = real;
  CHECK(decision_text(replayed(real, {same}, {})).empty());
  same.decisions[1] = {1, "commit rate", 5, "0.036 s"};
  CHECK(decision_text(replayed(real, {same}, {})) ==
        "First other decision: commit rate 4 (0.039 s), replayed 5 (0.036 s).");
  same.decisions.pop_back();  // it came too late
  CHECK(decision_text(replayed(real, {same}, {})).empty());
}

}  // namespace
}  // namespace rubato::cli::whatif::fit_tests
