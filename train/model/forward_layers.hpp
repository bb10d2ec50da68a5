// train/model/forward_layers.hpp - a model as its way forward sees it: which parameters each layer
// needs and what part of a step it takes. Pure. Units: parameters counted from the first of the
// model; parts of a step's time.
#pragma once

#include <cstdint>
#include <vector>

#include "train/model/model_spec.hpp"

namespace rubato::train {

// A layer that has parameters.
struct ForwardLayer {
  std::uint64_t end = 0;  // one past its last parameter
  double share = 0;       // of a step, on the way forward
};

// Of one sample: each weight once, wherever it is applied.
double multiplications(const Layer& layer, const LayerPlan& plan);

// The way forward is a third of a step, divided among the layers by their multiplications. Layers
// without parameters take no time. Requires: a spec that plan_layers accepts.
std::vector<ForwardLayer> forward_layers(const ModelSpec& spec);

}  // namespace rubato::train
