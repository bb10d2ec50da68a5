#include "train/model/step_work.hpp"

#include <fmt/format.h>

#include "base/check.hpp"
#include "train/model/forward_layers.hpp"

namespace rubato::train {
namespace {

constexpr double kBytes = sizeof(float);
constexpr int kBlock = 16;  // channels that fill a vector of 512 bits

std::string extent_text(const Extent& extent) {
  return fmt::format("{}x{}", extent.height, extent.width);
}

// Adds the kernels of one layer.
struct CountLayer {
  const LayerPlan& plan;
  double batch;
  bool first;   // nobody wants the gradient of its input
  bool joined;  // ReLU: behind a dense layer, or a convolution
  bool uneven;  // of image layers
  LayerWork& to;

  double inputs() const { return batch * plan.input.count(); }
  double outputs() const { return batch * plan.output.count(); }
  double weights() const { return static_cast<double>(plan.weight_count + plan.bias_count); }
  double ways() const { return first ? 2 : 3; }

  void operator()(const Dense& dense) const {
    to.name = fmt::format("dense {}", dense.outputs);
    const KernelSizes sizes{batch, static_cast<double>(dense.outputs),
                            static_cast<double>(plan.input.count()), 1};
    const double work = 2 * batch * static_cast<double>(plan.weight_count);
    const double bytes = kBytes * (inputs() + weights() + outputs());
    to.kernels = {{KernelKind::Forward, sizes, work, bytes},
                  {KernelKind::Weights, sizes, work, bytes}};
    if (!first) to.kernels.push_back({KernelKind::Inputs, sizes, work, bytes});
    to.kernels.push_back(
        {KernelKind::Bias, {outputs(), 1, 1, 1}, outputs(), kBytes * 3 * outputs()});
    to.operations = ways() * work;
  }
  void operator()(const Conv2d& conv) const {
    to.name = fmt::format("conv {} {}", conv.channels, extent_text(conv.kernel));
    const double places = static_cast<double>(plan.output.height) * plan.output.width;
    const double work = ways() * 2 * batch * places * static_cast<double>(plan.weight_count);
    to.kernels = {{uneven ? KernelKind::UnevenConvolution : KernelKind::Convolution,
                   {static_cast<double>(plan.input.channels), static_cast<double>(conv.channels),
                    static_cast<double>(conv.kernel.count()), places},
                   work,
                   kBytes * ways() * (inputs() + weights() + outputs())}};
    to.operations = work;
  }
  void operator()(const MaxPool2d& pool) const {
    to.name = fmt::format("max-pool {}", extent_text(pool.kernel));
    const double window = static_cast<double>(pool.kernel.count());
    const double values = inputs() + outputs();
    to.kernels = {{uneven ? KernelKind::UnevenPool : KernelKind::Pool,
                   {uneven ? values / batch : values, window, 1, 1},
                   values,
                   2 * kBytes * values}};
    to.operations = outputs() * window;
  }
  void operator()(const LocalResponseNorm&) const {
    to.name = "norm";
    to.kernels = {{KernelKind::Norm, {outputs(), 1, 1, 1}, outputs(), kBytes * 5 * outputs()}};
    to.operations = 10 * outputs();
  }
  void operator()(const Relu&) const {
    to.name = "relu";
    if (joined) return;
    to.kernels = {{KernelKind::Relu, {outputs(), 1, 1, 1}, outputs(), kBytes * 5 * outputs()}};
    to.operations = 2 * outputs();
  }
  void operator()(const Lstm& lstm) const {
    to.name = fmt::format("lstm {}", lstm.hidden);
    const double steps = plan.input.height, units = lstm.hidden;
    const double features = static_cast<double>(plan.input.channels) * plan.input.width;
    const double rows = batch * steps;
    // Forward and weights for inputs and state; on the way back the state, and inputs if wanted.
    const double work =
        2 * rows * 4 * units * (2 * (features + units) + units + (first ? 0 : features));
    to.kernels = {{KernelKind::Lstm,
                   {batch, features, units, steps},
                   work,
                   kBytes * (ways() * weights() + 2 * rows * (features + 7 * units))}};
    to.operations = work;
  }
};

}  // namespace

const KernelName& kernel_name(KernelKind kind) {
  static constexpr std::array<KernelName, kKernelKinds> kNames = {{
      {"forward", {"samples", "outputs", "inputs"}},
      {"weights", {"samples", "outputs", "inputs"}},
      {"inputs", {"samples", "outputs", "inputs"}},
      {"convolution", {"inputs", "outputs", "window", "places"}},
      {"uneven-convolution", {"inputs", "outputs", "window", "places"}},
      {"lstm", {"samples", "features", "units", "steps"}},
      {"pool", {"values", "window"}, true},
      {"uneven-pool", {"values-a-sample", "window"}, true},
      {"norm", {"values"}, true},
      {"relu", {"values"}, true},
      {"layout", {"values"}, true},
      {"uneven-layout", {"values"}, true},
      {"bias", {"values"}, true},
      {"loss", {"values"}, true},
      {"hinge", {"values"}, true},
      {"gather", {"values"}, true},
      {"update", {"values"}, true},
  }};
  return kNames[static_cast<std::size_t>(kind)];
}

std::size_t KernelName::size_count() const {
  std::size_t count = 0;
  while (count < sizes.size() && !sizes[count].empty()) ++count;
  return count;
}

std::vector<LayerWork> step_work(const ModelSpec& spec, int batch) {
  const auto plans = plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "work of an invalid model");
  const double samples = batch;
  std::vector<LayerWork> all(plans->size());
  LayerWork layout{.name = "layout", .kernels = {}};
  const auto add_layout = [&](KernelKind kind, double values) {
    layout.kernels.push_back({kind, {values, 1, 1, 1}, values, 2 * kBytes * values});
  };
  for (std::size_t begin = 0; begin < plans->size();) {
    std::size_t end = begin + 1;
    bool uneven = false;
    const bool image = !is_flat(spec.layers[begin]) &&
                       !(std::holds_alternative<Relu>(spec.layers[begin]) && begin > 0 &&
                         std::holds_alternative<Dense>(spec.layers[begin - 1]));
    if (image) {
      while (end < plans->size() && !is_flat(spec.layers[end])) ++end;
      for (std::size_t i = begin; i < end; ++i) {
        const auto* conv = std::get_if<Conv2d>(&spec.layers[i]);
        uneven = uneven || (conv && conv->channels % kBlock != 0);
      }
      const double in = samples * (*plans)[begin].input.count();
      const double out = samples * (*plans)[end - 1].output.count();
      add_layout(uneven ? KernelKind::UnevenLayout : KernelKind::Layout,
                 2 * out + (begin > 0 ? 2 : 1) * in);
    }
    for (std::size_t i = begin; i < end; ++i) {
      const bool joined =
          i > 0 && (std::holds_alternative<Dense>(spec.layers[i - 1]) ||
                    (!uneven && std::holds_alternative<Conv2d>(spec.layers[i - 1])));
      std::visit(CountLayer{(*plans)[i], samples, i == 0, joined, uneven, all[i]}, spec.layers[i]);
    }
    begin = end;
  }
  const double scores = samples * plans->back().output.count();
  const auto parameters = static_cast<double>(parameter_count(spec));
  const double inputs = samples * spec.input.count();
  const auto values = [&](const char* name, KernelKind kind, double count, double operations,
                          double bytes) {
    all.push_back({name, {{kind, {count, 1, 1, 1}, count, bytes * count}}, operations * count});
  };
  all.push_back(std::move(layout));
  values("loss", spec.loss == Loss::MultiClassHinge ? KernelKind::Hinge : KernelKind::Loss, scores,
         10, 2 * kBytes);
  values("update", KernelKind::Update, parameters, 3, 5 * kBytes);
  values("samples", KernelKind::Gather, inputs, 2, 1 + kBytes);
  for (LayerWork& layer : all)
    for (const Kernel& kernel : layer.kernels) layer.bytes += kernel.bytes;
  return all;
}

double step_bytes(const ModelSpec& spec, int batch) {
  const auto plans = plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "bytes of an invalid model");
  double values = spec.input.count();
  for (const LayerPlan& plan : *plans) values += 2.0 * plan.output.count();
  return kBytes * (3 * static_cast<double>(parameter_count(spec)) + batch * values);
}

}  // namespace rubato::train
