// cluster/model_start.hpp - what a run begins with: the values of model.start or of the seed, and
// what model.freeze leaves to train.
// Errors: BadInput, one line that names the key, the file and the tensor.
// Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/tensor_table.hpp"
#include "train/model/input_schema.hpp"
#include "train/model/trained_part.hpp"

namespace rubato::cluster {

struct ModelStart {
  train::TrainedPart trained;
  // Of the whole model, where model.start or model.freeze is given. Null: they follow from the
  // seed, and nobody needs all of them at once.
  std::shared_ptr<const std::vector<float>> values;
};

[[nodiscard]] Result<ModelStart> model_start(const ClusterConfig& config,
                                             const train::ModelSpec& spec, std::uint64_t seed);

// The same of an own model: model.start has every tensor that travels, by its name. Null without
// model.start: a worker tells the values.
[[nodiscard]] Result<std::shared_ptr<const std::vector<float>>> own_start(
    const ClusterConfig& config, const TensorTable& table);

// Refuses sequences for a model of images, and data whose columns or classes are not those of
// model.start, in their order, where its
// first or last layer goes on: its inputs and answers would change their meaning.
[[nodiscard]] Result<void> check_meaning(const ClusterConfig& config,
                                         const train::InputSchema& schema);
// Refuses a model.start that the run writes over. `directory`: where the run saves its model.
[[nodiscard]] Result<void> check_kept(const ClusterConfig& config, const std::string& directory);

}  // namespace rubato::cluster
