// The files of a virtual run: they hold what was evaluated, and the lowest of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/file.hpp"
#include "cluster/model_saver.hpp"
#include "tests/emulation/virtual_runs.hpp"
#include "tests/temp_directory.hpp"
#include "train/device.hpp"
#include "train/evaluate.hpp"
#include "train/model/model_file.hpp"

namespace rubato::emulation {
namespace {

train::TrainedModel read(const TempDirectory& directory, const std::string& name) {
  auto model = train::read_model(directory.path(name));
  REQUIRE_MESSAGE(model.has_value(), (model ? "" : model.error().message));
  return std::move(*model);
}

train::EvaluationResult evaluated(const train::TrainedModel& model, const train::Dataset& data) {
  auto device = train::make_device("reference").value();
  REQUIRE(device->build(model.spec, train::kEvaluationBatch));
  device->load(model.parameters);
  return train::evaluate(*device, data);
}

TEST_CASE("a saved model has the loss that its facts say, the best one the lowest of the run") {
  auto config = small_cluster({0.1, 0.3});
  config.servers.count = 3;
  config.servers.link = {.latency_seconds = 0.01, .jitter = 0.5};  // they join in another order
  const auto data = small_blobs();
  for (const char* sync : {"bsp", "adsp", "tempo"}) {
    CAPTURE(sync);
    const TempDirectory directory;
    const RunRecord record = saved_run(config, data, sync, directory.path(""));
    for (const char* name : {"model.safetensors", "best.safetensors"}) {
      CAPTURE(name);
      const auto model = read(directory, name);
      const auto result = evaluated(model, data.held_out);
      CHECK(std::stod(model.facts.at("held_out_loss")) ==
            doctest::Approx(result.loss).epsilon(1e-4));
      CHECK(std::stod(model.facts.at("held_out_accuracy")) == doctest::Approx(result.accuracy));
      CHECK(model.facts.at("sync") == sync);
      auto schema = data.schema;
      schema.class_samples.clear();  // nobody needs them to use a model
      CHECK(model.schema == schema);
    }
    const auto best = read(directory, "best.safetensors");
    const auto last = read(directory, "model.safetensors");
    // A point of the curve: what is measured at the end, for model.safetensors, is none.
    const auto& lowest_point =
        *std::ranges::min_element(record.evaluations, {}, &EvaluationRecord::loss);
    const double lowest = lowest_point.loss;
    CHECK(std::stod(best.facts.at("held_out_loss")) == doctest::Approx(lowest).epsilon(1e-7));
    CHECK(std::stod(best.facts.at("held_out_accuracy")) ==
          doctest::Approx(lowest_point.accuracy).epsilon(1e-7));
    CHECK(std::stoull(best.facts.at("steps")) == lowest_point.steps);
    CHECK(std::stod(last.facts.at("held_out_loss")) < 1.5 * lowest);  // each shard in its place
    CHECK(std::stoull(last.facts.at("steps")) == record.steps);
  }
}

TEST_CASE("saving changes nothing of the run") {
  const auto config = small_cluster({0.1, 0.3});
  const auto data = small_blobs();
  const TempDirectory directory;
  CHECK(to_text(saved_run(config, data, "adsp", directory.path(""))) ==
        to_text(run(config, data, "adsp").record));
}

TEST_CASE("without held-out data the model of the end is saved, and no best one") {
  const auto config = small_cluster({0.1});
  auto data = small_blobs();
  data.held_out = {};
  const TempDirectory directory;
  saved_run(config, data, "asp", directory.path(""));
  CHECK_FALSE(read(directory, "model.safetensors").facts.contains("held_out_loss"));
  CHECK_FALSE(read_file(directory.path("best.safetensors")).has_value());
}

TEST_CASE("a directory that is gone costs the files, not the run") {
  const auto config = small_cluster({0.1});
  CHECK(saved_run(config, small_blobs(), "asp", "/nowhere/at/all").steps > 0);
}

}  // namespace
}  // namespace rubato::emulation
