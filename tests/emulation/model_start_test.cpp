// model.start, model.fresh and model.freeze in whole runs.
#include <doctest/doctest.h>

#include <string>

#include "tests/each_model.hpp"
#include "tests/emulation/virtual_runs.hpp"
#include "tests/temp_directory.hpp"
#include "train/model/model_file.hpp"
#include "train/model/tensors.hpp"

namespace rubato::emulation {
namespace {

std::string refused(const cluster::ClusterConfig& config, const train::DataSplit& data) {
  VirtualOptions options;
  options.sync = "bsp";
  const auto record = run_virtual(config, data, options);
  REQUIRE_FALSE(record.has_value());
  return record.error().message;
}

bool runs(const cluster::ClusterConfig& config, const train::DataSplit& data) {
  return run(config, data, "bsp").record.steps > 0;
}

// The values of one tensor.
std::vector<float> tensor(const train::TrainedModel& model, const std::string& name) {
  std::vector<float> values;
  for (const auto& place : train::tensor_places(model.spec)) {
    if (place.name != name) continue;
    place.for_each_piece([&](std::uint64_t, std::uint64_t offset, std::uint64_t n) {
      const auto first = model.parameters.begin() + static_cast<std::ptrdiff_t>(offset);
      values.insert(values.end(), first, first + static_cast<std::ptrdiff_t>(n));
    });
  }
  REQUIRE_FALSE(values.empty());
  return values;
}

TEST_CASE("a run that starts from a file begins where the file's run ended") {
  auto config = small_cluster({0.1, 0.3});
  config.servers.count = 3;
  const auto data = small_blobs();
  const TempDirectory first, second;
  saved_run(config, data, "bsp", first.path(""));
  config.model.start = first.path("model.safetensors");
  config.seed = 7;
  const RunRecord record = saved_run(config, data, "adsp", second.path(""));
  const auto before = train::read_model(config.model.start).value();
  REQUIRE_FALSE(record.evaluations.empty());
  // The first evaluation is at the start of training: nobody has committed.
  CHECK(record.evaluations.front().loss ==
        doctest::Approx(std::stod(before.facts.at("held_out_loss"))).epsilon(1e-6));
}

const tests::EachModel kFrozen(
    "what is frozen stays to the bit, and what is left is trained", __FILE__, __LINE__,
    [](const std::string& sync) {
      auto config = small_cluster({0.1, 0.3});
      config.servers.count = 2;
      const auto data = small_blobs();
      const TempDirectory before, after;
      saved_run(config, data, "bsp", before.path(""));
      config.model.start = before.path("model.safetensors");
      config.model.freeze = {"dense1.weight"};
      config.model.fresh = {"dense2.*"};
      const RunRecord record = saved_run(config, data, sync, after.path(""));
      const auto old = train::read_model(config.model.start).value();
      const auto now = train::read_model(after.path("model.safetensors")).value();
      CHECK(tensor(now, "dense1.weight") == tensor(old, "dense1.weight"));
      CHECK(tensor(now, "dense1.bias") != tensor(old, "dense1.bias"));
      CHECK(record.evaluations.back().loss < record.evaluations.front().loss);
    });

TEST_CASE("frozen tensors are not sent") {
  auto config = small_cluster({0.1, 0.3});
  config.model.hidden = {200};
  config.stop.max_seconds = 20;
  const auto data = small_blobs();
  const RunRecord all = run(config, data, "bsp").record;
  config.model.freeze = {"dense2.*"};  // 804 of 2604 parameters
  const RunRecord rest = run(config, data, "bsp").record;
  REQUIRE(all.commits == rest.commits);
  // The difference is the payload of the frozen tensors, in every commit.
  CHECK(static_cast<double>(all.bytes_up - rest.bytes_up) / static_cast<double>(all.commits) ==
        doctest::Approx(804.0 * sizeof(float)).epsilon(0.01));
}

TEST_CASE("freezing without a file keeps the initial values of the seed") {
  auto config = small_cluster({0.1});
  config.stop.max_seconds = 5;
  config.model.freeze = {"dense1.*"};
  const TempDirectory directory;
  saved_run(config, small_blobs(), "asp", directory.path(""));
  auto model = train::read_model(directory.path("model.safetensors")).value();
  const auto trained = tensor(model, "dense2.weight");
  const auto frozen = tensor(model, "dense1.weight");
  model.parameters = train::initial_parameters(model.spec, config.seed);
  CHECK(tensor(model, "dense1.weight") == frozen);
  CHECK(tensor(model, "dense2.weight") != trained);
}

TEST_CASE("a start that does not fit is one line") {
  auto config = small_cluster({0.1});
  config.stop.max_seconds = 1;
  auto data = small_blobs();
  const TempDirectory directory;
  saved_run(config, data, "asp", directory.path(""));
  const std::string file = directory.path("model.safetensors");
  config.model.start = directory.path("absent.safetensors");
  CHECK(refused(config, data).starts_with("model.start: " + config.model.start + ": "));
  config.model.start = file;
  config.model.hidden = {5};
  CHECK(refused(config, data) ==
        "model.start: " + file +
            ": tensor dense1.weight is [8, 8], the model needs [5, 8]; a layer of another size "
            "can begin anew with model.fresh");
  config.model.hidden = {8, 5};
  CHECK(refused(config, data).starts_with("model.start: " + file + ": tensor dense2.weight is "));
  config.model.fresh = {"dense2.*", "dense3.*"};
  CHECK(runs(config, data));
  config.model.fresh = {"conv1.*"};
  CHECK(refused(config, data).starts_with("model.fresh: the model has no tensor \"conv1.*\""));
}

TEST_CASE("a start with other classes, or in another order, is refused") {
  auto config = small_cluster({0.1});
  config.stop.max_seconds = 1;
  auto data = small_blobs();
  data.schema.classes = {"cat", "cow", "dog", "owl"};
  const TempDirectory directory;
  saved_run(config, data, "asp", directory.path(""));
  config.model.start = directory.path("model.safetensors");
  data.schema.classes = {"cow", "cat", "dog", "owl"};
  CHECK(refused(config, data) == "model.start: " + config.model.start +
                                     " has the classes cat, cow, dog, owl, the data have them as "
                                     "cow, cat, dog, owl");
  data.schema.classes = {"ash", "oak", "elm", "fir"};
  CHECK(refused(config, data) ==
        "class \"ash\" is in the data, but not in the model of model.start; valid: cat, cow, dog, "
        "owl; mend the data, or let the last layer begin anew: model.fresh = [\"dense2.*\"]");
  config.model.fresh = {"dense2.*"};  // another task: fine-tuning
  CHECK(runs(config, data));
}

}  // namespace
}  // namespace rubato::emulation
