#include "train/model/forward_layers.hpp"

#include "base/check.hpp"

namespace rubato::train {
namespace {

constexpr double kForward = 1.0 / 3;  // the way back computes two gradients for each product

}  // namespace

double multiplications(const Layer& layer, const LayerPlan& plan) {
  double places = 1;
  if (std::holds_alternative<Conv2d>(layer)) places = plan.output.height * plan.output.width;
  if (std::holds_alternative<Lstm>(layer)) places = plan.input.height;
  return static_cast<double>(plan.weight_count) * places;
}

std::vector<ForwardLayer> forward_layers(const ModelSpec& spec) {
  const auto plans = plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "layers of an invalid model");
  std::vector<ForwardLayer> layers;
  double all = 0;
  for (std::size_t i = 0; i < plans->size(); ++i) {
    const LayerPlan& plan = (*plans)[i];
    if (plan.weight_count == 0) continue;
    layers.push_back({plan.bias_offset + plan.bias_count, multiplications(spec.layers[i], plan)});
    all += layers.back().share;
  }
  for (ForwardLayer& layer : layers) layer.share *= kForward / all;
  return layers;
}

}  // namespace rubato::train
