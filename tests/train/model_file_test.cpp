// A trained model as a file and back, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "tests/temp_directory.hpp"
#include "train/model/model_file.hpp"
#include "train/model/safetensors.hpp"
#include "train/model/tensors.hpp"

namespace rubato::train {
namespace {

TrainedModel trained(const ModelOptions& options, Shape input, int classes, bool pixels) {
  TrainedModel model;
  model.spec = make_model(options, input, classes).value();
  model.parameters = initial_parameters(model.spec, 7);
  model.schema = {.shape = input, .pixels = pixels};
  const int scalings = pixels ? input.channels : input.count();
  for (int i = 0; i < scalings; ++i) {
    const Scaling scaling{0.1 * i, 1 / (1.0 + i)};
    if (pixels) {
      model.schema.scalings.push_back(scaling);
    } else {
      model.schema.columns.push_back({.name = "c" + std::to_string(i), .scaling = scaling});
    }
  }
  if (classes == 1) model.schema.target = {170.5, 1 / 9.25};
  for (int i = 0; classes > 1 && i < classes; ++i)
    model.schema.classes.push_back("class " + std::to_string(i));
  model.facts = {{"sync", "adsp"}, {"steps", "2289"}};
  return model;
}

const std::vector<TrainedModel>& every_kind() {
  static const std::vector<TrainedModel> models = {
      trained({.kind = "mlp", .hidden = {5}}, {4, 1, 1}, 3, false),
      trained({.kind = "mlp", .hidden = {}, .linear = true}, {4, 1, 1}, 3, false),
      trained({.kind = "svm", .hidden = {}}, {4, 1, 1}, 2, false),
      trained({.kind = "cnn", .hidden = {}}, {3, 8, 8}, 4, true),
      trained({.kind = "lenet", .hidden = {}}, {1, 28, 28}, 10, true),
      trained({.kind = "lstm", .hidden = {6, 5}}, {1, 7, 3}, 3, true),
      trained({.kind = "mlp", .hidden = {5}}, {4, 1, 1}, 1, false),
      trained({.kind = "cnn1d", .hidden = {6, 5}}, {1, 9, 3}, 3, true),
  };
  return models;
}

std::string refusal_of(const std::string& path) {
  const auto read = read_model(path);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code == ErrorCode::BadInput);
  return read.error().message;
}

TEST_CASE("model file: the weights of classes come back") {
  const TempDirectory directory;
  TrainedModel model = trained({.kind = "mlp", .hidden = {5}}, {4, 1, 1}, 3, false);
  model.spec.class_weights = {1, 0.25f, 500};
  REQUIRE(write_model(directory.path("m.safetensors"), model));
  CHECK(read_model(directory.path("m.safetensors")).value().spec.class_weights ==
        model.spec.class_weights);
}

TEST_CASE("model file: every kind of model comes back as it was, to the bit") {
  const TempDirectory directory;
  for (const TrainedModel& model : every_kind()) {
    CAPTURE(model.spec.name);
    const std::string path = directory.path("model.safetensors");
    REQUIRE(write_model(path, model));
    const auto read = read_model(path);
    REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
    CHECK(read->parameters == model.parameters);
    CHECK(read->schema == model.schema);
    CHECK(read->facts == model.facts);
    CHECK(plan_layers(read->spec).value().back().input ==
          plan_layers(model.spec).value().back().input);
    CHECK(read->spec.layers.size() == model.spec.layers.size());
    CHECK(parameter_count(read->spec) == parameter_count(model.spec));
    std::vector<float> alone(model.parameters.size());
    REQUIRE(read_parameters(path, model.spec, {}, alone));
    CHECK(alone == model.parameters);
  }
}

TEST_CASE("tensors: every parameter is in exactly one of them") {
  for (const TrainedModel& model : every_kind()) {
    CAPTURE(model.spec.name);
    std::vector<int> seen(model.parameters.size());
    for (const TensorPlace& place : tensor_places(model.spec)) {
      if (place.second) continue;
      place.for_each_piece([&](std::uint64_t, std::uint64_t at, std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) ++seen[at + i];
      });
    }
    CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
  }
}

TEST_CASE("tensors: the first filters over time span all features, as one plane") {
  const ModelSpec spec = make_model({.kind = "cnn1d", .hidden = {6, 4}}, {1, 9, 3}, 2).value();
  const auto places = tensor_places(spec);
  REQUIRE(places.size() == 6);
  CHECK(places[0].name == "conv1.weight");
  CHECK(places[0].shape == std::vector<std::uint64_t>{6, 1, 5, 3});
  CHECK(places[2].name == "conv2.weight");
  CHECK(places[2].shape == std::vector<std::uint64_t>{4, 6, 5, 1});
}

TEST_CASE("tensors: the rows of an LSTM hold the weights of its input, then those of its state") {
  const ModelSpec spec = make_model({.kind = "lstm", .hidden = {2, 3}}, {1, 4, 3}, 2).value();
  const auto places = tensor_places(spec);
  REQUIRE(places.size() == 8);
  CHECK(places[0].name == "lstm1.weight_ih_l0");
  CHECK(places[0].shape == std::vector<std::uint64_t>{8, 3});
  CHECK(places[1].name == "lstm1.weight_hh_l0");
  CHECK(places[1].shape == std::vector<std::uint64_t>{8, 2});
  CHECK(places[1].offset == 3);
  CHECK(places[1].row_stride == 5);
  CHECK(places[4].name == "dense1.weight");
  CHECK(places[4].offset == 8 * 5 + 8);
  CHECK(places.back().name == "dense2.bias");
}

// As the format's description has it, byte by byte.
TEST_CASE("safetensors: a file of another program is read") {
  const TempDirectory directory;
  const std::string path = directory.path("other.safetensors");
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("h":{"dtype":"F16","shape":[3],"data_offsets":[8,14]},)"
                             R"("b":{"dtype":"BF16","shape":[1,1],"data_offsets":[14,16]}})";
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(i == 0 ? header.size() : 0);
  file += header;
  file += std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);  // 1, -2
  file += std::string("\x00\x3c\x01\x00\x00\xfc", 6);          // 1, 2^-24, -inf
  file += std::string("\x40\x40", 2);                          // 3
  REQUIRE(write_file(path, file));
  const auto read = read_safetensors(path);
  REQUIRE(read.has_value());
  CHECK(read->tensors.at("a").values == std::vector<float>{1, -2});
  CHECK(read->tensors.at("h").values[0] == 1);
  CHECK(read->tensors.at("h").values[1] == doctest::Approx(5.9604645e-8));
  CHECK(read->tensors.at("h").values[2] == -std::numeric_limits<float>::infinity());
  CHECK(read->tensors.at("b").shape == std::vector<std::uint64_t>{1, 1});
  CHECK(read->tensors.at("b").values[0] == 3);
  CHECK(refusal_of(path).find("only model files of rubato do") != std::string::npos);
}

TEST_CASE("model file: a flipped bit anywhere is refused, and the line names the file") {
  const TempDirectory directory;
  const std::string path = directory.path("model.safetensors");
  REQUIRE(write_model(path, every_kind()[0]));
  const std::string sound = read_file(path).value();
  for (std::size_t at = 0; at < sound.size(); at += 7) {
    std::string flipped = sound;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    if (at > 8 && sound[at] == ' ') continue;  // blanks that fill up the header say nothing
    REQUIRE(write_file(path, flipped));
    CAPTURE(at);
    CHECK(refusal_of(path).find(path) == 0);
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, sound.size() / 2, sound.size() - 1}) {
    REQUIRE(write_file(path, sound.substr(0, size)));
    CAPTURE(size);
    CHECK(refusal_of(path).find(path) == 0);
  }
}

TEST_CASE("model file: a missing tensor or another shape is one line that names it") {
  const TempDirectory directory;
  const std::string path = directory.path("weights.safetensors");
  SafeTensors content;
  content.tensors["dense1.weight"] = {{5, 4}, std::vector<float>(20)};
  content.tensors["dense1.bias"] = {{5}, std::vector<float>(5)};
  content.tensors["dense2.weights"] = {{3, 5}, std::vector<float>(15)};
  content.tensors["dense2.bias"] = {{3}, std::vector<float>(3)};
  REQUIRE(write_safetensors(path, content));
  const ModelSpec& spec = every_kind()[0].spec;
  std::vector<float> parameters(parameter_count(spec), 7.0F);
  const auto missing = read_parameters(path, spec, {}, parameters);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().message.starts_with(
      path + ": has no tensor dense2.weight, which the model needs; did you mean"));
  content.tensors["dense2.weight"] = {{3, 6}, std::vector<float>(18)};
  REQUIRE(write_safetensors(path, content));
  const auto shape = read_parameters(path, spec, {}, parameters);
  REQUIRE_FALSE(shape.has_value());
  CHECK(shape.error().message == path + ": tensor dense2.weight is [3, 6], the model needs [3, 5]");
  REQUIRE(read_parameters(path, spec, {"dense2.*"}, parameters));
  CHECK(parameters[0] == 0.0F);
  CHECK(parameters[25] == 7.0F);  // the first weight of dense2 stays
}

TEST_CASE("model file: PyTorch's second LSTM bias is added to the first") {
  const TempDirectory directory;
  const std::string path = directory.path("lstm.safetensors");
  const TrainedModel& model = every_kind()[5];
  REQUIRE(write_model(path, model));
  SafeTensors content = read_safetensors(path).value();
  for (float& value : content.tensors.at("lstm1.bias_hh_l0").values) value = 0.5F;
  REQUIRE(write_safetensors(path, content));
  std::vector<float> read(model.parameters.size());
  REQUIRE(read_parameters(path, model.spec, {}, read));
  const auto places = tensor_places(model.spec);
  const std::uint64_t bias = places[2].offset;
  CHECK(read[bias] == model.parameters[bias] + 0.5F);
  CHECK(read[bias - 1] == model.parameters[bias - 1]);
}

}  // namespace
}  // namespace rubato::train
