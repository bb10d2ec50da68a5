// train/cuda/conv_stage.hpp - a convolution and the ReLU behind it, if any (train/cuda/stage.hpp).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "train/cuda/stage.hpp"

namespace rubato::train::cuda {

class ConvStage {
 public:
  ConvStage(const LayerPlan& plan, const Conv2d& layer, bool relu)
      : plan_(plan), layer_(layer), relu_(relu) {}
  // Before batches of this size come; and when no more come.
  [[nodiscard]] Result<void> prepare(Gpu& gpu, int size);
  void forget(int size);
  void forward(const Pass& pass, const float* input, float* output) const;
  void backward(const Pass& pass, const float* input, const float* output, float* output_gradient,
                float* input_gradient) const;

 private:
  Convolution& convolution(int size) const;
  std::size_t outputs(const Pass& pass) const {
    return static_cast<std::size_t>(pass.size) * plan_.output.count();
  }

  LayerPlan plan_;
  Conv2d layer_;
  bool relu_;
  std::vector<std::pair<int, std::unique_ptr<Convolution>>> convolutions_;  // by size of batch
};

}  // namespace rubato::train::cuda
