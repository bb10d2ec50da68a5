#include "train/model/model_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"
#include "train/model/safetensors.hpp"
#include "train/model/tensors.hpp"
#include "train/model/trained_part.hpp"

namespace rubato::train {
namespace {

// The layout of the metadata; a file of a later one is refused.
constexpr int kVersion = 1;
constexpr const char* kModelKey = "rubato.model";
constexpr const char* kInputKey = "rubato.input";
constexpr std::string_view kFactPrefix = "rubato.run.";

struct LossName {
  Loss loss;
  const char* name;
};
constexpr std::array kLosses{LossName{Loss::SoftmaxCrossEntropy, "softmax-cross-entropy"},
                             LossName{Loss::MultiClassHinge, "multi-class-hinge"},
                             LossName{Loss::MeanSquaredError, "mean-squared-error"}};

// --- layers as JSON and back ------------------------------------------------------------------

// As PyTorch takes it: one number for a square, else [height, width].
Json extent_json(const Extent& extent) {
  if (extent.height == extent.width) return extent.height;
  return {extent.height, extent.width};
}

Extent extent_of(const Json& json) {
  if (!json.is_array()) return json.get<int>();
  const auto [height, width] = json.get<std::array<int, 2>>();
  return {height, width};
}

struct LayerJson {
  Json operator()(const Dense& d) const { return {{"kind", "dense"}, {"outputs", d.outputs}}; }
  Json operator()(const Conv2d& c) const {
    return {{"kind", "conv"},
            {"channels", c.channels},
            {"kernel", extent_json(c.kernel)},
            {"stride", extent_json(c.stride)},
            {"padding", extent_json(c.padding)}};
  }
  Json operator()(const MaxPool2d& p) const {
    return {{"kind", "maxpool"},
            {"kernel", extent_json(p.kernel)},
            {"stride", extent_json(p.stride)},
            {"padding_begin", extent_json(p.padding_begin)},
            {"padding_end", extent_json(p.padding_end)}};
  }
  Json operator()(const LocalResponseNorm& n) const {
    return {{"kind", "lrn"},
            {"radius", n.radius},
            {"bias", n.bias},
            {"alpha", n.alpha},
            {"beta", n.beta}};
  }
  Json operator()(const Relu&) const { return {{"kind", "relu"}}; }
  Json operator()(const Lstm& l) const { return {{"kind", "lstm"}, {"hidden", l.hidden}}; }
};

// Throws Json::exception where `json` has another form.
Layer layer_of(const Json& json) {
  const auto number = [&](const char* key) { return json.at(key).get<int>(); };
  const auto extent = [&](const char* key) { return extent_of(json.at(key)); };
  const auto kind = json.at("kind").get<std::string>();
  if (kind == "dense") return Dense{number("outputs")};
  if (kind == "conv")
    return Conv2d{number("channels"), extent("kernel"), extent("stride"), extent("padding")};
  if (kind == "maxpool")
    return MaxPool2d{extent("kernel"), extent("stride"), extent("padding_begin"),
                     extent("padding_end")};
  if (kind == "lrn")
    return LocalResponseNorm{number("radius"), json.at("bias").get<float>(),
                             json.at("alpha").get<float>(), json.at("beta").get<float>()};
  if (kind == "lstm") return Lstm{number("hidden")};
  if (kind == "relu") return Relu{};
  throw Json::other_error::create(501, "a layer of an unknown kind: " + kind, nullptr);
}

Json shape_json(const Shape& shape) {
  return {shape.channels, shape.height, shape.width};
}

Shape shape_of(const Json& json) {
  const auto extents = json.get<std::array<int, 3>>();
  return {extents[0], extents[1], extents[2]};
}

Json model_json(const ModelSpec& spec) {
  Json layers = Json::array();
  for (const Layer& layer : spec.layers) layers.push_back(std::visit(LayerJson{}, layer));
  Json json = {{"version", kVersion},
               {"name", spec.name},
               {"input", shape_json(spec.input)},
               {"classes", spec.classes},
               {"loss", std::ranges::find(kLosses, spec.loss, &LossName::loss)->name},
               {"layers", std::move(layers)}};
  if (!spec.class_weights.empty()) json["class_weights"] = spec.class_weights;
  return json;
}

ModelSpec spec_of(const Json& json) {
  ModelSpec spec{.name = json.at("name").get<std::string>(),
                 .input = shape_of(json.at("input")),
                 .layers = {},
                 .classes = json.at("classes").get<int>()};
  for (const Json& layer : json.at("layers")) spec.layers.push_back(layer_of(layer));
  const auto name = json.at("loss").get<std::string>();
  const auto loss = std::ranges::find(kLosses, name, &LossName::name);
  if (loss == kLosses.end()) throw Json::other_error::create(501, "an unknown loss", nullptr);
  spec.loss = loss->loss;
  spec.class_weights = json.value("class_weights", std::vector<float>{});
  return spec;
}

// What a sound file cannot say: a schema that does not fit its model.
bool fits(const InputSchema& schema, const ModelSpec& spec) {
  const auto& weights = spec.class_weights;
  if (!weights.empty() && (weights.size() != schema.classes.size() ||
                           !std::ranges::all_of(weights, [](float w) { return w > 0; })))
    return false;
  return schema.shape == spec.input && schema.outputs() == spec.classes &&
         (schema.task() == Task::Regression) == (spec.loss == Loss::MeanSquaredError);
}

// "model-00001-of-00003.safetensors".
bool is_shard(std::string_view path) {
  const auto of = path.rfind("-of-");
  return path.ends_with(".safetensors") && of != path.npos && of > 5 &&
         path.substr(of - 5, 5).find_first_not_of("0123456789") == path.npos;
}

Result<void> gather(const std::string& path, const SafeTensors& content, const ModelSpec& spec,
                    const std::vector<std::string>& fresh, std::span<float> parameters) {
  for (const TensorPlace& place : tensor_places(spec)) {
    if (matches_one(fresh, place.name)) continue;
    const auto found = content.tensors.find(place.name);
    if (found == content.tensors.end()) {
      if (place.second) continue;
      std::vector<std::string> names;
      for (const auto& [name, tensor] : content.tensors) names.push_back(name);
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: has no tensor {}, which the model needs{}{}", path, place.name,
                              suggestion(place.name, names),
                              is_shard(path) ? "; it is one of several files: name the "
                                               "model.safetensors.index.json beside it"
                                             : ""));
    }
    const Tensor& tensor = found->second;
    RUBATO_TRY(check_numbers(path, place.name, tensor));
    if (tensor.shape != place.shape)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: tensor {} is [{}], the model needs [{}]", path, place.name,
                              fmt::join(tensor.shape, ", "), fmt::join(place.shape, ", ")));
    place.for_each_piece([&](std::uint64_t from, std::uint64_t to, std::uint64_t n) {
      for (std::uint64_t i = 0; i < n; ++i)
        parameters[to + i] = tensor.values[from + i] + (place.second ? parameters[to + i] : 0);
    });
  }
  return {};
}

Result<TrainedModel> model_of(const std::string& path, const SafeTensors& content) {
  const auto& metadata = content.metadata;
  if (!content.checked)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: has lost its checksum; the file is damaged or was changed", path));
  const Json description = Json::parse(metadata.at(kModelKey));
  if (const int version = description.at("version").get<int>(); version != kVersion)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: its layout has version {}, this rubato knows {}; use a newer one",
                            path, version, kVersion));
  TrainedModel model;
  model.spec = spec_of(description);
  auto schema = schema_of(metadata.at(kInputKey));
  if (!schema)
    return fail(ErrorCode::BadInput, fmt::format("{}: has {}", path, schema.error().message));
  model.schema = std::move(*schema);
  RUBATO_TRY(plan_layers(model.spec));
  if (!fits(model.schema, model.spec))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: its input schema does not fit its layers", path));
  model.parameters.resize(parameter_count(model.spec));
  RUBATO_TRY(gather(path, content, model.spec, {}, model.parameters));
  for (const auto& [key, value] : metadata)
    if (key.starts_with(kFactPrefix)) model.facts[key.substr(kFactPrefix.size())] = value;
  return model;
}

}  // namespace

Result<void> write_model(const std::string& path, const TrainedModel& model) {
  RUBATO_CHECK(model.parameters.size() == parameter_count(model.spec), "all parameters, no more");
  RUBATO_CHECK(fits(model.schema, model.spec), "the schema of this model");
  SafeTensors content;
  for (const TensorPlace& place : tensor_places(model.spec)) {
    Tensor& tensor = content.tensors[place.name];
    tensor.shape = place.shape;
    tensor.values.resize(place.count());
    if (place.second) continue;
    place.for_each_piece([&](std::uint64_t to, std::uint64_t from, std::uint64_t n) {
      std::copy_n(model.parameters.begin() + static_cast<std::ptrdiff_t>(from), n,
                  tensor.values.begin() + static_cast<std::ptrdiff_t>(to));
    });
  }
  content.metadata[kModelKey] = json_text(model_json(model.spec));
  content.metadata[kInputKey] = to_text(model.schema);
  for (const auto& [key, value] : model.facts)
    content.metadata[std::string(kFactPrefix) + key] = value;
  return write_safetensors(path, content);
}

Result<ModelSpec> read_layers(const std::string& path) {
  RUBATO_ASSIGN(const SafeTensors content, read_safetensors(path));
  const auto text = content.metadata.find(kModelKey);
  if (text == content.metadata.end())
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: says nothing of layers; rubato.layers of the Python package writes "
                    "such a file, and so does a run",
                    path));
  try {
    const Json description = Json::parse(text->second);
    if (const int version = description.at("version").get<int>(); version != kVersion)
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}: its layout has version {}, this rubato knows {}; use a newer one", path,
                      version, kVersion));
    ModelSpec spec = spec_of(description);
    RUBATO_TRY(plan_layers(spec));
    return spec;
  } catch (const Json::exception& error) {
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: what it says of its layers cannot be read: {}", path, error.what()));
  }
}

std::string layers_text(const ModelSpec& spec) {
  return json_text(model_json(spec));
}

Result<TrainedModel> read_model(const std::string& path) {
  RUBATO_ASSIGN(auto model, read_own_model(path));
  if (!model)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: holds tensors, but not how they are used; only model files of "
                            "rubato do",
                            path));
  return std::move(*model);
}

Result<std::optional<TrainedModel>> read_own_model(const std::string& path) {
  RUBATO_ASSIGN(const SafeTensors content, read_safetensors(path));
  const auto& metadata = content.metadata;
  if (!metadata.contains(kModelKey) || !metadata.contains(kInputKey)) return std::nullopt;
  try {
    RUBATO_ASSIGN(auto model, model_of(path, content));
    return std::optional(std::move(model));
  } catch (const Json::exception& error) {
    return fail(ErrorCode::BadInput, fmt::format("{}: what it says of its model cannot be read: {}",
                                                 path, error.what()));
  }
}

Result<void> read_parameters(const std::string& path, const ModelSpec& spec,
                             const std::vector<std::string>& fresh, std::span<float> parameters) {
  RUBATO_CHECK(parameters.size() == parameter_count(spec), "room for another model");
  RUBATO_ASSIGN(const SafeTensors content, read_safetensors(path));
  return gather(path, content, spec, fresh, parameters);
}

}  // namespace rubato::train
