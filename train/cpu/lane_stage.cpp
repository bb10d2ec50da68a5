#include "train/cpu/lane_stage.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.hpp"

namespace rubato::train {
namespace {

// lanes <- `size` samples, NCHW, `shape` each; 0 in the lanes beyond them. And back.
void to_lanes(const Shape& shape, const float* samples, int size, int lanes, float* to) {
  const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(shape.height) * shape.width;
  for (std::ptrdiff_t p = 0; p < plane; ++p)
    for (std::ptrdiff_t c = 0; c < shape.channels; ++c, to += lanes) {
      const float* from = samples + c * plane + p;
      for (int lane = 0; lane < size; ++lane) to[lane] = from[lane * shape.count()];
      std::fill(to + size, to + lanes, 0.0f);
    }
}

void from_lanes(const Shape& shape, const float* from, int size, int lanes, float* samples) {
  const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(shape.height) * shape.width;
  for (std::ptrdiff_t p = 0; p < plane; ++p)
    for (std::ptrdiff_t c = 0; c < shape.channels; ++c, from += lanes) {
      float* to = samples + c * plane + p;
      for (int lane = 0; lane < size; ++lane) to[lane * shape.count()] = from[lane];
    }
}

}  // namespace

bool LaneStage::can_run(const ImageLayers& image) {
  const auto square = [](const Extent& extent) { return extent.height == extent.width; };
  return std::ranges::all_of(image.layers, [&](const Layer& layer) {
    if (const auto* conv = std::get_if<Conv2d>(&layer))
      return square(conv->kernel) && conv->stride == 1 && conv->padding == 0;
    if (const auto* pool = std::get_if<MaxPool2d>(&layer)) {
      const bool numbered = pool->kernel.count() <= 256;  // winners are bytes
      return square(pool->kernel) && square(pool->stride) && pool->padding_begin == 0 &&
             pool->padding_end == 0 && numbered;
    }
    return std::holds_alternative<Relu>(layer);
  });
}

const LaneKernels* LaneStage::suited(const ImageLayers& image, int batch_max) {
  if (lane_kernels().empty() || !can_run(image)) return nullptr;
  const LaneKernels* widest = lane_kernels().front();
  const int block = widest->onednn_block;
  const bool uneven = std::ranges::any_of(image.layers, [&](const Layer& layer) {
    const auto* conv = std::get_if<Conv2d>(&layer);  // oneDNN would leave lanes empty
    return conv && (block == 1 || conv->channels % block != 0);
  });
  return uneven && batch_max >= widest->lanes ? widest : nullptr;
}

LaneStage::LaneStage(const LaneKernels& kernels, ImageLayers image, int batch_max)
    : kernels_(&kernels), image_(std::move(image)), work_(image_.layers.size()) {
  RUBATO_CHECK(can_run(image_), "layers that lanes cannot run");
  const auto blocks = static_cast<std::size_t>(blocks_of(batch_max));
  activations_.push_back(activation(image_.plans.front().input));
  for (std::size_t i = 0; i < work_.size(); ++i) {
    const LayerPlan& plan = image_.plans[i];
    Work& work = work_[i];
    work.x = activations_.size() - 1;
    const auto* conv = std::get_if<Conv2d>(&image_.layers[i]);
    const bool in_place = std::holds_alternative<Relu>(image_.layers[i]);
    if (conv) work.convolution.emplace(kernels, plan, *conv);
    if (conv && image_.first && !nearest_) nearest_ = i;
    if (conv || in_place) activations_.back().kept = true;
    if (!in_place) activations_.push_back(activation(plan.output));
    if (!conv && !in_place) work.winners.resize(blocks * activations_.back().offset(1));
    work.y = activations_.size() - 1;
  }
  const auto lines = [](std::size_t floats) { return (floats + 15) / 16; };
  for (Activation& activation : activations_) {
    activation.values.resize(lines(activation.block_floats * (activation.kept ? blocks : 1)));
    activation.gradient.resize(lines(activation.block_floats));
  }
}

LaneStage::Activation LaneStage::activation(const Shape& shape) const {
  return {shape, false, static_cast<std::size_t>(shape.count() * kernels_->lanes), {}, {}};
}

int LaneStage::blocks_of(int size) const {
  return (size + kernels_->lanes - 1) / kernels_->lanes;
}

int LaneStage::samples_of(int block, int size) const {
  return std::min(kernels_->lanes, size - block * kernels_->lanes);
}

void LaneStage::forward(const float* parameters, const float* input, float* output, int size) {
  for (Work& work : work_) {
    if (work.convolution) work.convolution->load(parameters);
  }
  Activation& first = activations_.front();
  Activation& last = activations_.back();
  for (int block = 0; block < blocks_of(size); ++block) {
    const int samples = samples_of(block, size);
    to_lanes(first.shape, input + first.offset(block), samples, kernels_->lanes,
             first.block(block));
    clock_.lap(StepPart::Layout);
    for (std::size_t i = 0; i < work_.size(); ++i) {
      run_forward(i, block);
      clock_.lap(i);
    }
    from_lanes(last.shape, last.block(block), samples, kernels_->lanes,
               output + last.offset(block));
    clock_.lap(StepPart::Layout);
  }
}

void LaneStage::run_forward(std::size_t layer, int block) {
  Work& work = work_[layer];
  const float* x = activations_[work.x].block(block);
  Activation& output = activations_[work.y];
  float* y = output.block(block);
  if (work.convolution) {
    work.convolution->forward(x, y);
  } else if (const auto* pool = std::get_if<MaxPool2d>(&image_.layers[layer])) {
    kernels_->pool(image_.plans[layer], *pool, x, y, work.winners.data() + output.offset(block));
  } else {
    kernels_->relu(y, static_cast<std::size_t>(output.shape.count()));
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
    to_lanes(last.shape, output_gradient + last.offset(block), samples, kernels_->lanes,
             last.gradient.data()->of);
    clock_.lap(StepPart::Layout);
    bool wanted = true;
    for (std::size_t layer = work_.size(); wanted && layer-- > 0; clock_.lap(layer))
      wanted = run_backward(layer, block, gradient);
    if (!input_gradient) continue;
    from_lanes(first.shape, first.gradient.data()->of, samples, kernels_->lanes,
               input_gradient + first.offset(block));
    clock_.lap(StepPart::Layout);
  }
}

bool LaneStage::run_backward(std::size_t layer, int block, float* gradient) {
  Work& work = work_[layer];
  Activation& input = activations_[work.x];
  Activation& output = activations_[work.y];
  if (work.convolution) {
    work.convolution->add_gradient(input.block(block), output.gradient.data()->of, gradient);
    if (layer == nearest_) return false;
    work.convolution->backward(output.gradient.data()->of, input.gradient.data()->of);
  } else if (const auto* pool = std::get_if<MaxPool2d>(&image_.layers[layer])) {
    kernels_->pool_backward(image_.plans[layer], *pool, work.winners.data() + output.offset(block),
                            output.gradient.data()->of, input.gradient.data()->of);
  } else {
    kernels_->relu_backward(output.block(block), output.gradient.data()->of,
                            static_cast<std::size_t>(output.shape.count()));
  }
  return true;
}

}  // namespace rubato::train
