// A trained model as a file and back, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
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

// A file of other programs: tensors of these types, with so many bytes of zeros each.
std::string tensors_text(const std::vector<std::array<std::string, 3>>& tensors,
                         const std::string& bytes = {}) {
  std::string header = "{", data;
  for (const auto& [name, type, shape] : tensors) {
    const std::size_t size = type.ends_with("64")   ? 8
                             : type.ends_with("32") ? 4
                             : type.ends_with("16") ? 2
                                                    : 1;
    std::size_t count = 1;
    for (std::size_t at = 0; at < shape.size(); ++at)
      if (shape[at] != ',' && shape[at] != ' ') count *= static_cast<std::size_t>(shape[at] - '0');
    header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" + type +
              "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(data.size()) +
              "," + std::to_string(data.size() + size * count) + "]}";
    data += std::string(size * count, '\0');
  }
  header += "}";
  data.replace(0, bytes.size(), bytes);
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

const std::vector<std::array<std::string, 3>> kNeeded = {{"dense1.weight", "F32", "5, 4"},
                                                         {"dense1.bias", "F32", "5"},
                                                         {"dense2.weight", "F32", "3, 5"},
                                                         {"dense2.bias", "F32", "3"}};

// What is said of a file that a run is to begin with, after its path.
std::string start_refusal(const std::string& path, const std::vector<std::string>& fresh = {}) {
  const ModelSpec& spec = every_kind()[0].spec;
  std::vector<float> parameters(parameter_count(spec), 7.0F);
  const auto read = read_parameters(path, spec, fresh, parameters);
  if (read) return "";
  CHECK(read.error().code == ErrorCode::BadInput);
  return read.error().message.starts_with(path) ? read.error().message.substr(path.size())
                                                : read.error().message;
}

TEST_CASE("model file: tensors that nobody needs stop nothing, whatever their type") {
  const TempDirectory directory;
  for (const std::string type : {"BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "U64", "F8_E4M3",
                                 "F8_E5M2", "I64", "F64", "C64"}) {
    CAPTURE(type);
    auto tensors = kNeeded;
    tensors.push_back({"embeddings.position_ids", type, "1, 4"});
    CHECK(start_refusal(directory.write("a.safetensors", tensors_text(tensors))).empty());
    if (type == "F64") continue;
    tensors = kNeeded;
    tensors[1][1] = type;
    const std::string path = directory.write("b.safetensors", tensors_text(tensors));
    CHECK(start_refusal(path) == ": tensor dense1.bias is " + type + "; convert it to F32");
    CHECK(start_refusal(path, {"dense1.*"}).empty());
  }
}

TEST_CASE("model file: NaN and infinity are refused at once, with the tensor") {
  const TempDirectory directory;
  const auto bytes = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  struct Bad {
    std::string type, bytes;
  };
  const std::vector<Bad> cases = {
      {"F32", bytes(std::nanf(""))},
      {"F32", bytes(-std::nanf("1"))},
      {"F32", bytes(kInf)},
      {"F32", bytes(-kInf)},
      {"F64", bytes(std::nan(""))},
      {"F64", bytes(1e300)},  // beyond a float
      {"F16", bytes(std::uint16_t{0x7C00})},
      {"F16", bytes(std::uint16_t{0x7E01})},
      {"BF16", bytes(std::uint16_t{0x7F80})},
      {"BF16", bytes(std::uint16_t{0xFFC0})},
  };
  for (const auto& [type, value] : cases) {
    CAPTURE(type);
    auto tensors = kNeeded;
    tensors[0][1] = type;
    const std::string path = directory.write("a.safetensors", tensors_text(tensors, value));
    CHECK(start_refusal(path) ==
          ": tensor dense1.weight holds a value that is infinite or no number, as where a training "
          "diverged; take an earlier model");
    CHECK(start_refusal(path, {"dense1.weight"}).empty());
  }
  TrainedModel model = every_kind()[0];
  model.parameters.back() = kInf;
  REQUIRE(write_model(directory.path("m.safetensors"), model));
  CHECK(refusal_of(directory.path("m.safetensors")).find("tensor dense2.bias holds a value") !=
        std::string::npos);
}

TEST_CASE("model file: the shards of a model are one model") {
  const TempDirectory directory;
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";
  const TrainedModel& model = every_kind()[0];
  REQUIRE(write_model(directory.path("whole.safetensors"), model));
  const SafeTensors whole = read_safetensors(directory.path("whole.safetensors")).value();
  std::map<std::string, std::string> places;
  SafeTensors parts[2];
  for (const auto& [name, tensor] : whole.tensors) {
    const bool in_second = name.starts_with("dense2");
    places[name] = in_second ? second : first;
    parts[in_second ? 1 : 0].tensors[name] = tensor;
  }
  REQUIRE(write_safetensors(directory.path(first), parts[0]));
  REQUIRE(write_safetensors(directory.path(second), parts[1]));
  const auto index = [&](const std::string& map) {
    return directory.write("model.safetensors.index.json",
                           "{\"metadata\": {\"total_size\": 1}, \"weight_map\": " + map + "}\n");
  };
  const auto map_of = [](const std::map<std::string, std::string>& all) {
    std::string text = "{";
    for (const auto& [name, file] : all)
      text += (text.size() > 1 ? ", \"" : "\"") + name + "\": \"" + file + "\"";
    return text + "}";
  };
  std::vector<float> parameters(model.parameters.size());
  REQUIRE(read_parameters(index(map_of(places)), model.spec, {}, parameters));
  CHECK(parameters == model.parameters);
  CHECK(start_refusal(directory.path(first))
            .ends_with(
                "; it is one of several files: name the model.safetensors.index.json beside it"));
  CHECK(start_refusal(index("{}")) == ": weight_map: names no file");
  CHECK(start_refusal(index("[1]")) == ": weight_map: names no file");
  CHECK(start_refusal(index("{\"a\": 1}")) == ": weight_map: tensor a has no file");
  for (const char* file : {"../x", "/etc/passwd", "..", ".", "", "a/b"})
    CHECK(start_refusal(index(std::string("{\"a\": \"") + file + "\"}")) ==
          ": weight_map: \"" + std::string(file) + "\" is no file beside the index");
  places["dense3.bias"] = second;
  CHECK(start_refusal(index(map_of(places))).find("has no tensor dense3.bias, which") !=
        std::string::npos);
  places["dense3.bias"] = "model-00003.safetensors";
  CHECK(start_refusal(index(map_of(places))).find("model-00003.safetensors: No such file") !=
        std::string::npos);
}

TEST_CASE("model file: a file of another kind is named for what it is") {
  const TempDirectory directory;
  struct Other {
    std::string name, bytes, is;
  };
  using namespace std::string_literals;
  const std::vector<Other> cases = {
      {"m.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
       "is a pointer of Git LFS; fetch the file by git lfs pull"},
      {"m.safetensors", "<!DOCTYPE html><html>", "is a web page; if"},
      {"m.safetensors", "\n  <html lang=en>", "is a web page; if"},
      {"m.gguf", "GGUF\3\0\0\0\0\0\0\0"s, "is a GGUF file of llama.cpp"},
      {"pytorch_model.bin", "PK\3\4\0\0\0\0\0\0archive/data.pkl"s, "is a checkpoint of PyTorch"},
      {"m.pt", "\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s, "is a checkpoint of PyTorch"},
      {"model.onnx", "\x08\x07\x12\x07pytorch"s, "is an ONNX file; name"},
      {"m.h5", "\x89HDF\r\n\x1a\n\0\0\0\0"s, "is an HDF5 file, as Keras writes"},
      {"m.tflite", "\x1c\0\0\0TFL3\x14\0\x20\0"s, "is a model of TensorFlow Lite"},
      {"m.npy", "\x93NUMPY\1\0\x76\0"s, "is a NumPy array"},
      {"config.json", "{\"architectures\": [\"BertModel\"]}", "is a JSON file; name"},
      {"m.safetensors.gz", "\x1f\x8b\x08\0\0\0\0\0\0\3"s, "is compressed by gzip; unpack it"},
      {"m.safetensors", "hello", "is no model file, or a damaged one; name the model.safetensors"},
      {"m.safetensors", "", "is empty; name the model.safetensors"},
  };
  for (const auto& [name, bytes, is] : cases) {
    CAPTURE(name);
    const std::string path = directory.write(name, bytes);
    CHECK_MESSAGE(start_refusal(path).starts_with(": " + is), start_refusal(path));
    CHECK(refusal_of(path).starts_with(path + ": " + is));
  }
  CHECK(start_refusal(directory.path("absent.safetensors")) == ": No such file or directory");
  CHECK(start_refusal(directory.path()) == ": Is a directory");
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
