#include "cluster/class_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/nearest.hpp"

namespace rubato::cluster {
namespace {

Result<std::vector<float>> balanced(const ClusterConfig& config, const train::InputSchema& schema) {
  const auto& counts = schema.class_samples;
  if (counts.empty())
    return fail(
        ErrorCode::BadInput,
        fmt::format("training.class_weights: \"balanced\" needs the number of samples of "
                    "each class, which {} lacks; make it anew with rubato data, or name the "
                    "weights",
                    config.dataset.schema));
  const auto all =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{}));
  const auto present = static_cast<double>(
      std::ranges::count_if(counts, [](std::uint64_t count) { return count > 0; }));
  std::vector<float> weights;
  for (const std::uint64_t count : counts)
    weights.push_back(
        count == 0 ? 1.0f : static_cast<float>(all / (present * static_cast<double>(count))));
  return weights;
}

}  // namespace

Result<std::vector<float>> class_weights(const ClusterConfig& config,
                                         const train::InputSchema& schema) {
  const ClassWeights& stated = config.training.class_weights;
  if (!stated.any()) return std::vector<float>{};
  if (stated.balanced) return balanced(config, schema);
  std::vector<float> weights(schema.classes.size(), 1.0f);
  for (const auto& [name, weight] : stated.by_name) {
    const auto found = std::ranges::find(schema.classes, name);
    if (found == schema.classes.end())
      return fail(ErrorCode::BadInput,
                  fmt::format("training.class_weights: the data have no class \"{}\"{}", name,
                              suggestion(name, schema.classes)));
    weights[static_cast<std::size_t>(found - schema.classes.begin())] = static_cast<float>(weight);
  }
  return weights;
}

}  // namespace rubato::cluster
