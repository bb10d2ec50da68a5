#include "cluster/model_start.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "train/model_file.hpp"

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

Result<void> check_classes(const ClusterConfig& config, const train::InputSchema& schema) {
  const std::string& path = config.model.start;
  if (path.empty()) return {};
  const auto classes = train::classes_of(path);
  if (!classes || *classes == schema.classes) return {};
  auto theirs = *classes, ours = schema.classes;
  std::ranges::sort(theirs);
  std::ranges::sort(ours);
  if (theirs != ours) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("model.start: {} has the classes {}, the data have them as {}; set "
                          "dataset.class_names to the order of the file",
                          path, fmt::join(*classes, ", "), fmt::join(schema.classes, ", ")));
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
