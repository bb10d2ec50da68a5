// Tempo in small clusters of both kinds of data: that it leads without an option, says why, and
// holds at a rate too high for rare commits. Bounds lie well inside what was measured.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sync/tempo.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

// Four workers, one of them four times slower; a commit takes as long as the quick ones' step.
cluster::ClusterConfig unequal() {
  cluster::ClusterConfig config = small_cluster({0.1, 0.1, 0.1, 0.4});
  set_latency(config, 0.05);
  config.training.learning_rate = 0.1;
  config.stop.max_seconds = 60;
  return config;
}

}  // namespace

TEST_CASE(
    "tempo is there with the first of BSP, ASP and ADSP, and well before most, whether data are "
    "alike or not") {
  const auto data = small_blobs();
  for (const bool alike : {true, false}) {
    CAPTURE(alike);
    cluster::ClusterConfig config = unequal();
    if (!alike) config.partition = {.kind = train::Partition::Kind::Labels, .labels = 1};
    for (const std::uint64_t seed : {1, 2}) {
      CAPTURE(seed);
      const double tempo = time_to(run(config, data, "tempo", seed).record, 0.5);
      double sum = 0;
      for (const char* other : {"bsp", "asp", "adsp"}) {
        CAPTURE(other);
        const double theirs = time_to(run(config, data, other, seed).record, 0.5);
        CHECK(tempo < 1.1 * theirs);
        sum += theirs;
      }
      CHECK(tempo < 0.75 * sum / 3);
    }
  }
}

TEST_CASE("tempo says what it chose and why, and local rates part with the data") {
  const auto data = small_blobs();
  for (const bool alike : {true, false}) {
    cluster::ClusterConfig config = unequal();
    if (!alike) config.partition = {.kind = train::Partition::Kind::Labels, .labels = 1};
    const auto decisions = run(config, data, "tempo").record.decisions;
    REQUIRE(decisions.size() > 3);
    CHECK(decisions.front().reason == "local rate 0.300: begin");
    CHECK(std::ranges::any_of(decisions, [](const auto& decision) {
      return decision.reason.find("to the way meanwhile") != std::string::npos;
    }));
    const auto local_of = [](const auto& decision) {
      return std::stod(decision.reason.substr(sizeof("local rate")));
    };
    double highest = 0;
    for (const auto& decision : decisions) highest = std::max(highest, local_of(decision));
    if (alike) CHECK(highest > 0.9);
    if (!alike) CHECK(local_of(decisions.back()) < 0.5);
  }
}

TEST_CASE("tempo keeps the loss down at learning rates that are too high for rare commits") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = unequal();
  config.training.learning_rate = 1;
  for (const std::uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    const RunRecord adsp = run(config, data, "adsp", seed).record;
    const RunRecord tempo = run(config, data, "tempo", seed).record;
    CHECK(tempo.final_loss < adsp.final_loss);
    CHECK(tempo.final_loss < 0.5 * tempo.evaluations.front().loss);
  }
}

// At 3 BSP, ASP and ADSP end at losses of tens, or none at all. How low tempo comes depends on the
// last bits: to 0.09 to 0.47 of the first loss, 0.18 in the mean (16 seeds of both rates).
TEST_CASE("tempo still learns at rates that blow the parameters up: it goes back to better ones") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = unequal();
  for (const double rate : {1.5, 3.0}) {
    CAPTURE(rate);
    config.training.learning_rate = rate;
    bool back = false;
    double sum = 0;
    for (const std::uint64_t seed : {1, 2, 3}) {
      CAPTURE(seed);
      const RunRecord tempo = run(config, data, "tempo", seed).record;
      const auto loss = [](const auto& evaluation) { return evaluation.loss; };
      const double lowest = std::ranges::min(tempo.evaluations, {}, loss).loss;
      const double part = lowest / tempo.evaluations.front().loss;
      CHECK(part < 0.5);
      sum += part;
      for (const auto& decision : tempo.decisions)
        back |= decision.reason.find("back to the parameters of the last low") != std::string::npos;
    }
    CHECK(sum / 3 < 0.3);
    CHECK(back);
  }
}

TEST_CASE(
    "tempo's servers have Nesterov's momentum where workers are few and the file names none") {
  const auto data = small_blobs();
  const auto text_of = [&](std::vector<double> step_seconds, const char* sync,
                           std::optional<cluster::ServerOptimizer> kind, double momentum,
                           void (*change)(cluster::ClusterConfig&) = nullptr) {
    cluster::ClusterConfig config = small_cluster(step_seconds);
    if (change) change(config);
    set_latency(config, 0.05);
    config.stop.max_seconds = 10;
    config.optimizer.kind = kind;
    config.optimizer.momentum = momentum;
    return to_text(run(config, data, sync).record);
  };
  using enum server::OptimizerKind;
  const std::vector<double> three = {0.1, 0.1, 0.4}, eight(8, 0.1);
  const std::string few = text_of(three, "tempo", {}, 0.9);
  CHECK(few == text_of(three, "tempo", Nesterov, 0.7));
  CHECK(few != text_of(three, "tempo", Sgd, 0.9));
  CHECK(text_of(eight, "tempo", {}, 0.9) == text_of(eight, "tempo", Sgd, 0.9));
  CHECK(text_of(three, "asp", {}, 0.9) == text_of(three, "asp", Sgd, 0.9));
  const auto adamw = [](cluster::ClusterConfig& config) {
    config.training.optimizer.kind = train::LocalOptimizerKind::AdamW;
  };
  CHECK(text_of(three, "tempo", {}, 0.9, adamw) == text_of(three, "tempo", Sgd, 0.9, adamw));
  const auto open = [](cluster::ClusterConfig& config) { config.open = true; };
  CHECK(text_of(three, "tempo", {}, 0.9, open) == text_of(three, "tempo", Sgd, 0.9, open));
}

TEST_CASE("tempo sets the commits of all apart where there is a byte budget, and still learns") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = unequal();
  config.stop.max_seconds = 30;
  const double commit = 2 * 4 * (8 * 8 + 8 + 8 * 4 + 4);  // bytes of the parameters, up and down
  for (const double apart : {0.5, 2.0}) {
    CAPTURE(apart);
    config.sync.of<sync::TempoOptions>().bytes_per_second = 4 * commit / apart;
    const RunRecord record = run(config, data, "tempo").record;
    CHECK(record.final_loss < 0.5 * record.evaluations.front().loss);
    const auto commits = static_cast<double>(record.commits);
    CHECK(commits <= 4 * (30 / apart + 1));
    CHECK(commits >= 4 * (30 / (apart + 0.4) - 1));  // a step of the slow one more at most
  }
}
