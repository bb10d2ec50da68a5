#include "cluster/model_start.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "train/model/known_schema.hpp"
#include "train/model/model_file.hpp"
#include "train/model/safetensors.hpp"

namespace rubato::cluster {
namespace {

constexpr const char* kFreezeKey = "model.freeze";
constexpr const char* kFreshKey = "model.fresh";

Result<std::vector<float>> start_values(const ClusterConfig& config, const train::ModelSpec& spec,
                                        std::uint64_t seed) {
  const train::ModelOptions& model = config.model;
  // A file gives every tensor but the fresh ones.
  const bool drawn = model.start.empty() || !model.fresh.empty();
  auto values = drawn ? train::initial_parameters(spec, seed)
                      : std::vector<float>(train::parameter_count(spec));
  if (model.start.empty()) return values;
  RUBATO_TRY(train::check_patterns(spec, model.fresh, kFreshKey));
  auto read = train::read_parameters(model.start, spec, model.fresh, values);
  if (!read)
    return fail(read.error().code, fmt::format("model.start: {}; a layer of another size can begin "
                                               "anew with model.fresh",
                                               read.error().message));
  return values;
}

}  // namespace

Result<ModelStart> model_start(const ClusterConfig& config, const train::ModelSpec& spec,
                               std::uint64_t seed) {
  ModelStart start;
  RUBATO_ASSIGN(start.trained, train::trained_part(spec, config.model.freeze, kFreezeKey));
  if (config.model.start.empty() && start.trained.all()) return start;
  RUBATO_ASSIGN(auto values, start_values(config, spec, seed));
  start.values = std::make_shared<const std::vector<float>>(std::move(values));
  return start;
}

Result<std::shared_ptr<const std::vector<float>>> own_start(const ClusterConfig& config,
                                                            const TensorTable& table) {
  const std::string& path = config.model.start;
  if (path.empty()) return nullptr;
  RUBATO_ASSIGN(const auto content, train::read_safetensors(path));
  auto values = std::make_shared<std::vector<float>>();
  values->reserve(table.parameters());
  for (const TableTensor& tensor : table.tensors) {
    if (!tensor.travels()) continue;
    const auto found = content.tensors.find(tensor.name);
    const bool fits = found != content.tensors.end() && found->second.shape == tensor.shape;
    if (!fits)
      return fail(
          ErrorCode::BadInput,
          fmt::format("model.start: {}: tensor \"{}\" {}", path, tensor.name,
                      found == content.tensors.end() ? "is missing"
                                                     : fmt::format("is {}, and the workers' is {}",
                                                                   shape_text(found->second.shape),
                                                                   shape_text(tensor.shape))));
    if (auto sound = train::check_numbers(path, tensor.name, found->second); !sound)
      return fail(sound.error().code, "model.start: " + sound.error().message);
    values->insert(values->end(), found->second.values.begin(), found->second.values.end());
  }
  return values;
}

Result<void> check_meaning(const ClusterConfig& config, const train::InputSchema& schema) {
  if (config.own_model()) return {};
  const std::string& kind = config.model.kind;
  if (schema.steps() > 1 && (kind == "cnn" || kind == "lenet"))
    return fail(ErrorCode::BadInput,
                fmt::format("model.kind: {} takes images, and the data are sequences of {} steps; "
                            "use cnn1d or lstm, or save pixels as uint8",
                            kind, schema.steps()));
  const std::string& path = config.model.start;
  RUBATO_ASSIGN(const auto known, train::start_schema(path, config.model.fresh));
  RUBATO_TRY(train::check_classes(known, schema.classes));
  const auto differ = [&](const char* what, const auto& theirs, const auto& ours) {
    return fail(ErrorCode::BadInput,
                fmt::format("model.start: {} has the {} {}, the data have them as {}", path, what,
                            fmt::join(theirs, ", "), fmt::join(ours, ", ")));
  };
  if (known.outputs && known.schema.classes != schema.classes)
    return differ("classes", known.schema.classes, schema.classes);
  const auto names_of = [](const train::InputSchema& of) {
    std::vector<std::string> names;
    for (const train::Column& column : of.columns) names.push_back(column.name);
    return names;
  };
  if (known.inputs && names_of(known.schema) != names_of(schema))
    return differ("columns", names_of(known.schema), names_of(schema));
  return {};
}

Result<void> check_kept(const ClusterConfig& config, const std::string& directory) {
  const std::string& path = config.model.start;
  if (path.empty()) return {};
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const char* name : {"model.safetensors", "best.safetensors"})
    if (fs::equivalent(path, fs::path(directory) / name, ignored))
      return fail(ErrorCode::BadInput,
                  fmt::format("model.start: this run writes its own model to {}; choose another "
                              "directory with --out, or copy the file",
                              path));
  return {};
}

}  // namespace rubato::cluster
