// train/cpu/lane_stage.hpp - a run of image layers with samples side by side in the lanes of a
// vector: for channel counts with which oneDNN leaves lanes empty, and for vectors for which it has
// no code. Each block, of as many samples as there are lanes, goes through all layers before the
// next one comes, so its activations stay in the second cache.
// The interface is that of every stage: train/cpu/dense_stage.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "train/cpu/image_plan.hpp"
#include "train/cpu/lane_convolution.hpp"
#include "train/cpu/lane_kernels.hpp"
#include "train/layer_clock.hpp"

namespace rubato::train {

class LaneStage {
 public:
  // The kernels with which this stage runs these layers faster than oneDNN: a rule by shape and
  // processor, never by the clock. Null: none.
  static const LaneKernels* suited(const ImageLayers& image, int batch_max);
  // Whether kernels can run these layers at all.
  static bool can_run(const ImageLayers& image);

  // Requires: can_run(). Lifetime: of `kernels`, longer than this.
  LaneStage(const LaneKernels& kernels, ImageLayers image, int batch_max);
  void forward(const float* parameters, const float* input, float* output, int size);
  void backward(const float* parameters, const float* input, const float* output,
                float* output_gradient, float* input_gradient, float* gradient, int size);
  void set_clock(const StageClock& clock) { clock_ = clock; }

 private:
  struct alignas(64) Line {
    float of[16];
  };
  // What a layer reads or writes. The values of one block are kept until backward() where that
  // needs them; where not, all blocks share one place.
  struct Activation {
    Shape shape;
    bool kept = false;
    std::size_t block_floats;
    std::vector<Line> values;
    std::vector<Line> gradient;  // of one block

    float* block(int index) { return values.data()->of + (kept ? offset(index) : 0); }
    std::size_t offset(int index) const { return static_cast<std::size_t>(index) * block_floats; }
  };
  struct Work {
    std::size_t x = 0, y = 0;  // indices of activations; a ReLU works in place
    std::optional<LaneConvolution> convolution;
    std::vector<std::uint8_t> winners;  // of a pool, all blocks
  };

  Activation activation(const Shape& shape) const;
  int blocks_of(int size) const;
  int samples_of(int block, int size) const;
  void run_forward(std::size_t layer, int block);
  // Returns: whether a layer before this one wants its gradient.
  bool run_backward(std::size_t layer, int block, float* gradient);

  const LaneKernels* kernels_;
  StageClock clock_;
  ImageLayers image_;
  std::vector<Activation> activations_;
  std::vector<Work> work_;              // one a layer
  std::optional<std::size_t> nearest_;  // the first convolution, where nobody wants what is before
};

}  // namespace rubato::train
