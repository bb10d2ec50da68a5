#include "train/cuda/conv_stage.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace rubato::train::cuda {

Result<void> ConvStage::prepare(Gpu& gpu, int size) {
  RUBATO_ASSIGN(auto made, gpu.convolution({size, plan_.input, plan_.output, layer_}));
  convolutions_.emplace_back(size, std::move(made));
  return {};
}

void ConvStage::forget(int size) {
  std::erase_if(convolutions_, [&](const auto& each) { return each.first == size; });
}

Convolution& ConvStage::convolution(int size) const {
  const auto found =
      std::ranges::find(convolutions_, size, [](const auto& each) { return each.first; });
  RUBATO_CHECK(found != convolutions_.end(), "a convolution was not prepared");
  return *found->second;
}

void ConvStage::forward(const Pass& pass, const float* input, float* output) const {
  convolution(pass.size).forward(input, pass.weights + plan_.weight_offset, output);
  const Shape& out = plan_.output;
  pass.gpu.launch(Stream::Compute, outputs(pass),
                  AddBias{.bias = pass.weights + plan_.bias_offset,
                          .y = output,
                          .plane = static_cast<std::uint32_t>(out.height * out.width),
                          .channels = static_cast<std::uint32_t>(out.channels),
                          .relu = relu_});
}

void ConvStage::backward(const Pass& pass, const float* input, const float* output,
                         float* output_gradient, float* input_gradient) const {
  Convolution& conv = convolution(pass.size);
  if (relu_)
    pass.gpu.launch(Stream::Compute, outputs(pass),
                    ReluBackward{output, output_gradient, output_gradient});
  conv.bias_gradient(output_gradient, pass.gradient + plan_.bias_offset);
  conv.weight_gradient(input, output_gradient, pass.gradient + plan_.weight_offset);
  if (input_gradient)
    conv.input_gradient(pass.weights + plan_.weight_offset, output_gradient, input_gradient);
}

}  // namespace rubato::train::cuda
