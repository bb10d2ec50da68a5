#include "train/model/dataset_options.hpp"

#include <algorithm>
#include <cmath>

namespace rubato::train {
namespace {

constexpr int kBlobsFeatures = 20;
constexpr int kBlobsClasses = 10;

}  // namespace

SampleFacts facts_of(const InputSchema& schema) {
  return {schema.shape, schema.outputs()};
}

std::optional<SampleFacts> known_facts(const DatasetOptions& options) {
  if (options.kind == "fashion-mnist") return SampleFacts{{1, 28, 28}, 10};
  if (options.kind == "cifar-10") return SampleFacts{{3, 32, 32}, 10};
  if (options.kind == "blobs")
    return SampleFacts{{options.features > 0 ? options.features : kBlobsFeatures, 1, 1},
                       options.classes > 0 ? options.classes : kBlobsClasses};
  const bool table = options.kind == "csv" || options.kind == "libsvm";
  if (table && options.features > 0 && options.task == Task::Regression)
    return SampleFacts{{options.features, 1, 1}, 1};
  if (table && options.features > 0 && options.classes > 0)
    return SampleFacts{{options.features, 1, 1}, options.classes};
  return std::nullopt;
}

std::uint64_t held_out_of(std::uint64_t samples, double fraction) {
  return static_cast<std::uint64_t>(
      std::llround(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(samples)));
}

}  // namespace rubato::train
