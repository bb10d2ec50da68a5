#include "train/cpu/lane_stage.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace rubato::train {
namespace {

int blocks_of(int size) {
  return (size + kLanes - 1) / kLanes;
}

int samples_of(int block, int size) {
  return std::min(kLanes, size - block * kLanes);
}

}  // namespace

bool LaneStage::suits(const ImageLayers& image, int batch_max) {
  if (!lanes_are_fast() || batch_max < kLanes) return false;
  bool uneven = false;  // oneDNN would leave lanes empty
  for (const Layer& layer : image.layers) {
    if (const auto* conv = std::get_if<Conv2d>(&layer)) {
      if (conv->stride != 1 || conv->padding != 0) return false;
      uneven = uneven || conv->channels % kLanes != 0;
    } else if (const auto* pool = std::get_if<MaxPool2d>(&layer)) {
      const bool numbered = pool->kernel * pool->kernel <= 256;  // winners are bytes
      if (pool->padding_begin != 0 || pool->padding_end != 0 || !numbered) return false;
    } else if (!std::holds_alternative<Relu>(layer)) {
      return false;
    }
  }
  return uneven;
}

LaneStage::LaneStage(ImageLayers image, int batch_max)
    : image_(std::move(image)), work_(image_.layers.size()) {
  RUBATO_CHECK(suits(image_, batch_max), "layers that lanes cannot run");
  const auto blocks = static_cast<std::size_t>(blocks_of(batch_max));
  activations_.push_back({image_.plans.front().input, false, {}, {}});
  for (std::size_t i = 0; i < work_.size(); ++i) {
    const LayerPlan& plan = image_.plans[i];
    Work& work = work_[i];
    work.x = activations_.size() - 1;
    const auto* conv = std::get_if<Conv2d>(&image_.layers[i]);
    const bool in_place = std::holds_alternative<Relu>(image_.layers[i]);
    if (conv) work.convolution.emplace(plan, *conv);
    if (conv && image_.first && !nearest_) nearest_ = i;
    if (conv || in_place) activations_.back().kept = true;
    if (!in_place) activations_.push_back({plan.output, false, {}, {}});
    if (!conv && !in_place) work.winners.resize(blocks * activations_.back().offset(1));
    work.y = activations_.size() - 1;
  }
  for (Activation& activation : activations_) {
    activation.values.resize(activation.offset(activation.kept ? static_cast<int>(blocks) : 1));
    activation.gradient.resize(activation.offset(1));
  }
}

void LaneStage::forward(const float* parameters, const float* input, float* output, int size) {
  for (Work& work : work_) {
    if (work.convolution) work.convolution->load(parameters);
  }
  Activation& first = activations_.front();
  Activation& last = activations_.back();
  for (int block = 0; block < blocks_of(size); ++block) {
    const int samples = samples_of(block, size);
    to_lanes(first.shape, input + kLanes * first.offset(block), samples, first.block(block));
    for (std::size_t i = 0; i < work_.size(); ++i) run_forward(i, block);
    from_lanes(last.shape, last.block(block), samples, output + kLanes * last.offset(block));
  }
}

void LaneStage::run_forward(std::size_t layer, int block) {
  Work& work = work_[layer];
  const Lanes* x = activations_[work.x].block(block);
  Activation& output = activations_[work.y];
  Lanes* y = output.block(block);
  if (work.convolution) {
    work.convolution->forward(x, y);
  } else if (const auto* pool = std::get_if<MaxPool2d>(&image_.layers[layer])) {
    lane_pool(image_.plans[layer], *pool, x, y, work.winners.data() + output.offset(block));
  } else {
    lane_relu(y, output.offset(1));
  }
}

void LaneStage::backward(const float* parameters, const float*, const float*,
                         float* output_gradient, float* input_gradient, float* gradient, int size) {
  for (std::size_t i = 0; i < work_.size(); ++i) {
    if (!work_[i].convolution) continue;
    work_[i].convolution->load_transposed(parameters);
    const LayerPlan& plan = image_.plans[i];
    std::fill_n(gradient + plan.weight_offset, plan.weight_count, 0.0f);
    std::fill_n(gradient + plan.bias_offset, plan.bias_count, 0.0f);
  }
  Activation& first = activations_.front();
  Activation& last = activations_.back();
  for (int block = 0; block < blocks_of(size); ++block) {
    const int samples = samples_of(block, size);
    to_lanes(last.shape, output_gradient + kLanes * last.offset(block), samples,
             last.gradient.data());
    std::size_t layer = work_.size();
    while (layer > 0 && run_backward(layer - 1, block, gradient)) --layer;
    if (!input_gradient) continue;
    from_lanes(first.shape, first.gradient.data(), samples,
               input_gradient + kLanes * first.offset(block));
  }
}

bool LaneStage::run_backward(std::size_t layer, int block, float* gradient) {
  Work& work = work_[layer];
  Activation& input = activations_[work.x];
  Activation& output = activations_[work.y];
  if (work.convolution) {
    work.convolution->add_gradient(input.block(block), output.gradient.data(), gradient);
    if (layer == nearest_) return false;
    work.convolution->backward(output.gradient.data(), input.gradient.data());
  } else if (const auto* pool = std::get_if<MaxPool2d>(&image_.layers[layer])) {
    lane_pool_backward(image_.plans[layer], *pool, work.winners.data() + output.offset(block),
                       output.gradient.data(), input.gradient.data());
  } else {
    lane_relu_backward(output.block(block), output.gradient.data(), output.offset(1));
  }
  return true;
}

}  // namespace rubato::train
