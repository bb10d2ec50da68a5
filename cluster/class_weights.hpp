// cluster/class_weights.hpp - what the loss of a sample counts, by its class:
// training.class_weights for the classes that all nodes agreed on. All that compute a loss have the
// same weights: they follow from the schema, or from the samples that all share out. Source of
// "balanced": n / (k n_c), King, Zeng, "Logistic Regression in Rare Events Data", Political
// Analysis 9 (2001), as scikit-learn's compute_class_weight has it. Pure.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "train/model/input_schema.hpp"

namespace rubato::cluster {

// Returns: [classes], or nothing where all are 1. A class without a sample counts 1. BadInput for a
// class that the data have not, and for "balanced" where nobody counted the samples.
[[nodiscard]] Result<std::vector<float>> class_weights(const ClusterConfig& config,
                                                       const train::InputSchema& schema);

}  // namespace rubato::cluster
