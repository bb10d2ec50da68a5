#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "base/file.hpp"
#include "report/study/fingerprint.hpp"
#include "report/study/plan.hpp"
#include "sync/adsp.hpp"
#include "sync/ssp.hpp"
#include "tests/report/sample.hpp"

using namespace rubato;
using namespace rubato::report;

namespace {

const std::string kCluster = "name = \"small\"\nseed = 7\n" + std::string(kFastAndSlow) + R"(
[training]
learning_rate = 0.05
[stop]
target_loss = 0.5
max_seconds = 60
)";

Result<StudyPlan> plan_of(const std::string& text, const std::string& cluster = kCluster) {
  auto study = parse_study(text, "studies/s.toml");
  if (!study) return tl::unexpected<Error>(study.error());
  return make_plan(std::move(*study), {"small.toml", cluster, ""});
}

std::string complaint(const std::string& text) {
  const auto plan = plan_of(text);
  if (plan) return "";
  CHECK(plan.error().code == ErrorCode::BadInput);
  CHECK(plan.error().message.find('\n') == std::string::npos);
  return plan.error().message;
}

}  // namespace

TEST_CASE("study: the grid is the product of its axes, the last one fastest") {
  const auto plan = plan_of(R"(
cluster = "small.toml"
seeds = 3
x = "training.batch"
[set]
model.hidden = [8]
[[cases]]
name = "plain"
[[cases]]
name = "split"
set = { dataset.partition = "labels:2", stop.target_loss = 0.7 }
[grid]
heterogeneity = [1, 2.5]
training.batch = [4, 8, 16]
[[contenders]]
sync = "bsp"
[[contenders]]
name = "SSP s=3"
sync = "ssp"
set = { sync.ssp.staleness = 3, optimizer.global_rate = 0.5 }
)");
  REQUIRE_MESSAGE(plan, plan.error().message);
  CHECK(plan->study.name == "s");
  CHECK(plan->study.cluster == "studies/small.toml");
  REQUIRE(plan->points.size() == 2 * 2 * 3);
  REQUIRE(plan->variants.size() == 24);
  CHECK(plan->run_count() == 72);
  CHECK(plan->study.axes[plan->study.x].name == "training.batch");
  CHECK(point_text(plan->study, plan->points[0]) ==
        "case = plain, heterogeneity = 1, training.batch = 4");
  CHECK(point_text(plan->study, plan->points[11]) ==
        "case = split, heterogeneity = 2.5, training.batch = 16");
  CHECK(plan->study.contenders[0].name == "BSP");

  const auto& first = plan->variants[0].config;
  CHECK(first.seed == 7);
  CHECK(first.model.hidden == std::vector<int>{8});
  CHECK(first.training.batch == 4);
  CHECK(first.stop.target_loss == 0.5);
  CHECK(cluster::configured_heterogeneity(first) == doctest::Approx(1));
  CHECK(first.sync.of<sync::SspOptions>().staleness == 40);
  const auto& last = plan->variants[23].config;
  CHECK(last.training.batch == 16);
  CHECK(last.stop.target_loss == 0.7);
  CHECK(last.partition.labels == 2);
  CHECK(cluster::configured_heterogeneity(last) == doctest::Approx(2.5));
  CHECK(last.sync.of<sync::SspOptions>().staleness == 3);
  CHECK(last.optimizer.global_rate == 0.5);
  CHECK(plan->variants[22].config.optimizer.global_rate == std::nullopt);
}

TEST_CASE("study: without a grid there is one point, without contenders the usual four") {
  const auto plan = plan_of("cluster = \"small.toml\"");
  REQUIRE(plan);
  CHECK(plan->points.size() == 1);
  CHECK(plan->study.contenders.size() == 4);
  CHECK(plan->study.seeds == 5);
  CHECK(point_text(plan->study, plan->points[0]).empty());
}

TEST_CASE("study: a group of workers is set by its name, all of them by a star") {
  const auto plan = plan_of(R"(
cluster = "small.toml"
[set]
workers."*".jitter = 0.2
[grid]
workers.slow.step_seconds = [0.4, 0.8]
)");
  REQUIRE_MESSAGE(plan, plan.error().message);
  const auto& config = plan->variants.back().config;
  CHECK(config.workers[0].device.step_seconds == 0.1);
  CHECK(config.workers[1].device.step_seconds == 0.8);
  CHECK(config.workers[0].device.jitter == 0.2);
  CHECK(config.workers[1].device.jitter == 0.2);
}

TEST_CASE("study: a contender that searches has a variant for every combination") {
  const auto plan = plan_of(R"(
cluster = "small.toml"
[grid]
heterogeneity = [1, 2]
[[contenders]]
sync = "bsp"
[[contenders]]
name = "ADSP++"
sync = "adsp"
set = { sync.adsp.check_period_seconds = 10 }
search = { sync.adsp.fixed_rate = [1, 4, 16], sync.adsp.batches = ["equal", "speed"] }
)");
  REQUIRE_MESSAGE(plan, plan.error().message);
  REQUIRE(plan->variants.size() == 2 * (1 + 6));
  CHECK(plan->run_count() == 70);
  CHECK(searches(plan->study));
  const Contender& contender = plan->study.contenders[1];
  CHECK(trial_text(plan->study.contenders[0], plan->variants[0].trial).empty());
  CHECK(trial_text(contender, plan->variants[1].trial) == "batches = equal, fixed_rate = 1");
  CHECK(trial_text(contender, plan->variants[6].trial) == "batches = speed, fixed_rate = 16");
  CHECK(plan->variants[3].config.sync.of<sync::AdspOptions>().fixed_rate == 16);
  CHECK(plan->variants[3].config.sync.of<sync::AdspOptions>().batches == sync::Batches::Equal);
  CHECK(plan->variants[3].config.sync.of<sync::AdspOptions>().check_period ==
        Duration::from_seconds(10));
  CHECK(plan->variants[4].config.sync.of<sync::AdspOptions>().batches == sync::Batches::Speed);
  CHECK(&first_variant(*plan, 1) == &plan->variants[7]);
  CHECK(plan->variants[13].point == 1);
}

TEST_CASE("study: keys of a search that end alike are told apart") {
  const auto plan = plan_of(R"(
cluster = "small.toml"
[[contenders]]
sync = "local-sgd"
[contenders.search]
sync.local-sgd.local_steps = [1, 2]
sync.dylu.local_steps = [3]
training.learning_rate = [0.1]
)");
  REQUIRE_MESSAGE(plan, plan.error().message);
  CHECK(trial_text(plan->study.contenders[0], plan->variants[1].trial) ==
        "sync.local-sgd.local_steps = 2, sync.dylu.local_steps = 3, learning_rate = 0.1");
}

TEST_CASE("study: what is wrong is one line that says where") {
  const std::string head = "cluster = \"small.toml\"\n";
  CHECK(complaint("seeds = 3") == "studies/s.toml:1: cluster: a study needs a cluster file");
  CHECK(complaint(head + "sedes = 3") ==
        "studies/s.toml:2: unknown key sedes; did you mean seeds?");
  CHECK(complaint(head + "[grid]\ntraining.batch = 4") ==
        "studies/s.toml:3: grid.training.batch = 4: must be a list of values like [1, 2, 3]");
  CHECK(complaint(head + "[grid]\ntraining.batch = []") ==
        "studies/s.toml:3: grid.training.batch = []: must be a list of values like [1, 2, 3]");
  CHECK(complaint(head + "[grid]\ntraining.batch = [4, 0]") ==
        "studies/s.toml: training.batch = 0, BSP: small.toml: training.batch = 0: must be a whole "
        "number from 1 to 1000000");
  CHECK(complaint(head + "[set]\ntraining.bacth = 4") ==
        "studies/s.toml: BSP: small.toml: unknown key training.bacth; did you mean batch?");
  CHECK(complaint(head + "[grid]\nworkers.medium.step_seconds = [1]") ==
        "studies/s.toml: workers.medium.step_seconds = 1, BSP: workers.medium.step_seconds = 1: no "
        "[[workers]] is called medium; valid: fast, slow");
  CHECK(complaint(head + "[set]\nheterogeneity = 0.5").find("must be a number of at least 1") !=
        std::string::npos);
  CHECK(complaint(head + "[[contenders]]\nsync = \"adps\"").find("did you mean adsp?") !=
        std::string::npos);
  CHECK(complaint(head + "[[contenders]]\nsync = \"asp\"\n[[contenders]]\nsync = \"asp\"")
            .find("two contenders are called ASP") != std::string::npos);
  CHECK(complaint(head + "x = \"seed\"\n[grid]\ntraining.batch = [1, 2]")
            .find("must be a key of [grid], or case; valid: training.batch") != std::string::npos);
  // A contender with a target, data or machines of its own would not be compared, but favoured.
  for (const char* key : {"stop.target_loss", "evaluation.samples", "dataset.samples", "seed",
                          "worker_count", "servers.count", "model.kind", "heterogeneity"}) {
    CAPTURE(key);
    CHECK(complaint(head + "[[contenders]]\nsync = \"asp\"\n[contenders.set]\n" + key + " = 2")
              .find(std::string(key) + " is part of the problem that all contenders share") !=
          std::string::npos);
  }
  const std::string search = head + "[[contenders]]\nsync = \"adsp\"\n[contenders.search]\n";
  CHECK(
      complaint(search + "sync.adsp.fixed_rate = 4") ==
      "studies/s.toml:5: search.sync.adsp.fixed_rate = 4: must be a list of values like [1, 2, 3]");
  CHECK(complaint(search + "sync.adsp.fixed_rate = [4, 0]")
            .find("ADSP, fixed_rate = 0: small.toml: sync.adsp.fixed_rate = 0: must be") !=
        std::string::npos);
  CHECK(complaint(search + "stop.target_loss = [1, 2]").find("is part of the problem") !=
        std::string::npos);
  // The average is a way to judge a model, and so its own.
  CHECK(complaint(search + "evaluation.average = [false, true]").empty());
  std::string many = "[1";
  for (int i = 2; i <= 32; ++i) many += ", " + std::to_string(i);
  CHECK(complaint(search + "sync.adsp.fixed_rate = " + many +
                  "]\nsync.adsp.epoch_seconds = " + many + "]")
            .find("tries more than 1000 combinations") != std::string::npos);
  // What is wrong with the cluster file has its own lines.
  const auto broken =
      plan_of(head, "[[workers]]\nname = \"a\"\nstep_seconds = -1\n[stop]\nmax_seconds = 1\n");
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message.starts_with("small.toml:3: workers[0].step_seconds = -1"));
}

TEST_CASE("study: the key of a run changes with all that decides its result") {
  const auto key = [](const std::string& text, const std::string& cluster, std::uint64_t seed,
                      std::uint64_t data) {
    const auto plan = plan_of("cluster = \"small.toml\"\n" + text, cluster);
    REQUIRE_MESSAGE(plan, plan.error().message);
    return run_key(plan->variants[0], plan->study.contenders[0].sync, seed, data);
  };
  const std::string plain = key("", kCluster, 1, 5);
  CHECK(key("question = \"other words\"\nseeds = 9", kCluster, 1, 5) == plain);
  CHECK(key("", "# a comment\n" + kCluster, 1, 5) == plain);
  CHECK(key("[set]\ntraining.learning_rate = 0.05", kCluster, 1, 5) == plain);
  CHECK(key("[[contenders]]\nname = \"another name\"\nsync = \"bsp\"", kCluster, 1, 5) == plain);
  std::set<std::string> keys{plain,
                             key("", kCluster, 2, 5),
                             key("", kCluster, 1, 6),
                             key("[set]\ntraining.learning_rate = 0.1", kCluster, 1, 5),
                             key("[[contenders]]\nsync = \"asp\"", kCluster, 1, 5),
                             key("[set]\nheterogeneity = 3", kCluster, 1, 5)};
  CHECK(keys.size() == 6);
}

TEST_CASE("study: fingerprints tell length, order and every byte apart") {
  const std::set<std::uint64_t> prints{
      fingerprint(""),          fingerprint(std::string_view("\0", 1)),
      fingerprint("a"),         fingerprint("ab"),
      fingerprint("ba"),        fingerprint("abcdefgh"),
      fingerprint("abcdefghi"), fingerprint("abcdefgi"),
      fingerprint("bbcdefgh"),  fingerprint("ABCDefghabcd")};
  CHECK(prints.size() == 10);
}

TEST_CASE("study: every shipped study can run") {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(RUBATO_SOURCE_DIR "/deploy/studies")) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path().string());
    const auto text = read_file(entry.path().string());
    REQUIRE(text);
    auto study = parse_study(*text, entry.path().string());
    REQUIRE_MESSAGE(study, study.error().message);
    CHECK_FALSE(study->question.empty());
    CHECK_FALSE(study->expected.empty());
    CHECK(text->starts_with("#"));
    const auto cluster = cluster::read_cluster(study->cluster);
    REQUIRE_MESSAGE(cluster, cluster.error().message);
    const auto plan = make_plan(std::move(*study), *cluster);
    REQUIRE_MESSAGE(plan, plan.error().message);
    CHECK(names.insert(plan->study.name).second);
    for (const Variant& variant : plan->variants) CHECK(variant.config.stop.max_seconds);
  }
  CHECK(names.size() >= 8);
}
