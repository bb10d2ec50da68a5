// train/model/step_work.hpp - what one training step computes, layer by layer: its kernels with
// their shapes, its operations and its bytes. How long they take is for a device to say
// (train/step_time.hpp). Pure.
// Units: operations are floating-point additions and multiplications; bytes are those read and
// written, each float32 value once a kernel.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/model/model_spec.hpp"

namespace rubato::train {

// What a device is measured with. The three products of a dense layer are kinds of their own, since
// libraries read transposed factors at another speed.
enum class KernelKind {
  Forward,            // samples x inputs times weights
  Weights,            // the gradient of the weights
  Inputs,             // the gradient of the inputs
  Convolution,        // one layer both ways, the channels of all in blocks of 16
  UnevenConvolution,  // the same, of other channels
  Lstm,               // one layer both ways, all time steps
  Pool,               // one layer both ways
  UnevenPool,         // the same, where channels are uneven
  Norm,               // local response norm, both ways
  Relu,               // where it is no part of another layer, both ways
  Layout,             // samples to the layout of image layers and back
  UnevenLayout,       // the same, where channels are uneven
  Bias,               // bias and ReLU of a dense layer, both ways
  Loss,               // cross-entropy or squared error of the batch, and its gradient
  Hinge,              // the hinge loss
  Gather,             // the samples of the batch from the data
  Update,             // parameters and update along the gradient
};
inline constexpr std::size_t kKernelKinds = 17;

// Sizes that decide the speed of a kernel, as many as its kind has; the others are 1.
inline constexpr std::size_t kSizesMax = 4;
using KernelSizes = std::array<double, kSizesMax>;

struct KernelName {
  std::string_view name;                          // in a device file: "uneven-convolution"
  std::array<std::string_view, kSizesMax> sizes;  // "samples"; empty: no further one
  bool values = false;                            // its work is values, not operations

  std::size_t size_count() const;
};
// Of one kind.
const KernelName& kernel_name(KernelKind kind);

struct Kernel {
  KernelKind kind = KernelKind::Forward;
  KernelSizes sizes = {1, 1, 1, 1};
  double work = 0;   // operations, or values
  double bytes = 0;  // of its operands and results, each once
};

struct LayerWork {
  std::string name;             // "conv 64 5x5", "loss"
  std::vector<Kernel> kernels;  // none: part of the layer before
  double operations = 0;        // multiply-adds count two
  double bytes = 0;
};

// One entry a layer of the model; then layouts, loss and update, as train::StepPart has them; then
// the gathering of the samples. `spec` is one that plan_layers accepts.
std::vector<LayerWork> step_work(const ModelSpec& spec, int batch);

// Bytes of all that a step reads and writes again and again: parameters, their gradient and update,
// and the activations with their gradients.
double step_bytes(const ModelSpec& spec, int batch);

}  // namespace rubato::train
