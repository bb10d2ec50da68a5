#include "train/model/tensors.hpp"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <numeric>
#include <string_view>

#include "base/check.hpp"

namespace rubato::train {
namespace {

std::string_view kind_name(const Layer& layer) {
  constexpr std::string_view kNames[] = {"dense", "conv", "maxpool", "lrn", "relu", "lstm"};
  static_assert(std::variant_size_v<Layer> == std::size(kNames));
  return kNames[layer.index()];
}

std::uint64_t size(int count) {
  return static_cast<std::uint64_t>(count);
}

}  // namespace

std::uint64_t TensorPlace::columns() const {
  return std::accumulate(shape.begin() + 1, shape.end(), std::uint64_t{1}, std::multiplies<>());
}

std::vector<std::string> layer_names(const ModelSpec& spec) {
  std::map<std::string_view, int> count;
  std::vector<std::string> names;
  for (const Layer& layer : spec.layers)
    names.push_back(fmt::format("{}{}", kind_name(layer), ++count[kind_name(layer)]));
  return names;
}

std::vector<TensorPlace> tensor_places(const ModelSpec& spec) {
  const auto plans = plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "tensors of an invalid model");
  const std::vector<std::string> names = layer_names(spec);
  std::vector<TensorPlace> places;
  for (std::size_t i = 0; i < plans->size(); ++i) {
    const LayerPlan& plan = (*plans)[i];
    if (plan.weight_count == 0) continue;
    const std::string& name = names[i];
    if (std::holds_alternative<Lstm>(spec.layers[i])) {
      const std::uint64_t hidden = size(plan.output.channels), gates = 4 * hidden;
      const std::uint64_t features = plan.fan_in - hidden;
      places.push_back(
          {name + ".weight_ih_l0", {gates, features}, plan.weight_offset, plan.fan_in});
      places.push_back(
          {name + ".weight_hh_l0", {gates, hidden}, plan.weight_offset + features, plan.fan_in});
      places.push_back({name + ".bias_ih_l0", {gates}, plan.bias_offset, 1});
      places.push_back({name + ".bias_hh_l0", {gates}, plan.bias_offset, 1, true});
      continue;
    }
    std::vector<std::uint64_t> shape{plan.bias_count, plan.fan_in};
    if (const auto* conv = std::get_if<Conv2d>(&spec.layers[i]))
      shape = {plan.bias_count, size(plan.input.channels), size(conv->kernel.height),
               size(conv->kernel.width)};
    places.push_back({name + ".weight", shape, plan.weight_offset, plan.fan_in});
    places.push_back({name + ".bias", {plan.bias_count}, plan.bias_offset, 1});
  }
  return places;
}

}  // namespace rubato::train
