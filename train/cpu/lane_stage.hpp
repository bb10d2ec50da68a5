// train/cpu/lane_stage.hpp - a run of image layers with 16 samples side by side in the lanes of a
// vector: for channel counts with which oneDNN leaves lanes empty. Each block of 16 samples goes
// through all layers before the next one comes, so its activations stay in the second cache.
// The interface is that of every stage: train/cpu/dense_stage.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "train/cpu/image_plan.hpp"
#include "train/cpu/lane_kernels.hpp"

namespace rubato::train {

class LaneStage {
 public:
  // Whether this stage can run these layers, and is the faster one here: a rule by shape and
  // processor, never by the clock.
  static bool suits(const ImageLayers& image, int batch_max);

  // Requires: suits().
  LaneStage(ImageLayers image, int batch_max);
  void forward(const float* parameters, const float* input, float* output, int size);
  void backward(const float* parameters, const float* input, const float* output,
                float* output_gradient, float* input_gradient, float* gradient, int size);

 private:
  // What a layer reads or writes. The values of one block are kept until backward() where that
  // needs them; where not, all blocks share one place.
  struct Activation {
    Shape shape;
    bool kept = false;
    std::vector<Lanes> values;
    std::vector<Lanes> gradient;  // of one block

    Lanes* block(int index) { return values.data() + (kept ? offset(index) : 0); }
    std::size_t offset(int index) const {
      return static_cast<std::size_t>(index) * static_cast<std::size_t>(shape.count());
    }
  };
  struct Work {
    std::size_t x = 0, y = 0;  // indices of activations; a ReLU works in place
    std::optional<LaneConvolution> convolution;
    std::vector<LaneBytes> winners;  // of a pool, all blocks
  };

  void run_forward(std::size_t layer, int block);
  // Returns: whether a layer before this one wants its gradient.
  bool run_backward(std::size_t layer, int block, float* gradient);

  ImageLayers image_;
  std::vector<Activation> activations_;
  std::vector<Work> work_;              // one a layer
  std::optional<std::size_t> nearest_;  // the first convolution, where nobody wants what is before
};

}  // namespace rubato::train
