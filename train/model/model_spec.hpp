// train/model/model_spec.hpp - a model as data: input shape, layers, loss; its parameter layout and
// initial values. Devices execute it; nothing here computes.
// Shapes: activations are NCHW float32, row-major; a flat vector of n features is {n, 1, 1}; a
// sequence has one time step a row: height = steps, channels x width = features of one step.
// Parameter layout: one flat vector, layer by layer, weights then bias.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace rubato::train {

// The float32 values that one data set or one model may have, 4 GiB: a typing error lies beyond.
inline constexpr std::uint64_t kValuesMax = std::uint64_t{1} << 30;

struct Shape {
  int channels = 0;
  int height = 1;
  int width = 1;
  int count() const { return channels * height * width; }
  bool operator==(const Shape&) const = default;
};

// Of a window, its step or its border: rows and columns. One number stands for both.
struct Extent {
  int height = 0;
  int width = 0;
  // NOLINTNEXTLINE(google-explicit-constructor): `.kernel = 5` is a square
  constexpr Extent(int both) : height(both), width(both) {}
  constexpr Extent(int rows, int columns) : height(rows), width(columns) {}
  constexpr std::int64_t count() const { return std::int64_t{height} * width; }
  bool operator==(const Extent&) const = default;
};

struct Dense {  // weights [outputs, inputs] row-major, bias [outputs]; flattens its input
  int outputs = 0;
};
struct Conv2d {  // weights [channels, in_channels, kernel height, kernel width], bias [channels]
  int channels = 0;
  Extent kernel = 1;
  Extent stride = 1;
  Extent padding = 0;  // zeros: rows above and below, columns left and right
};
struct MaxPool2d {
  Extent kernel = 2;
  Extent stride = 2;
  Extent padding_begin = 0;  // above, left; padding never wins the maximum
  Extent padding_end = 0;    // below, right
};
struct LocalResponseNorm {  // y = x / (bias + alpha sum_{|j-c| <= radius} x_j^2)^beta, across
                            // channels
  int radius = 4;
  float bias = 1.0f;
  float alpha = 0.001f / 9;
  float beta = 0.75f;
};
struct Relu {};
struct Lstm {      // input {c, steps, w} read row by row -> last hidden state {hidden, 1, 1}
  int hidden = 0;  // weights [4 hidden, c w + hidden], bias [4 hidden], gates i f g o
};

using Layer = std::variant<Dense, Conv2d, MaxPool2d, LocalResponseNorm, Relu, Lstm>;
// It takes each sample as one row; all others take planes.
inline bool is_flat(const Layer& layer) {
  return std::holds_alternative<Dense>(layer) || std::holds_alternative<Lstm>(layer);
}

// MultiClassHinge: max(0, 1 + max_{j != y} s_j - s_y), Crammer and Singer, JMLR 2 (2001).
// MeanSquaredError: (s - t)^2, not halved, of a model with one output, which learns a number.
enum class Loss { SoftmaxCrossEntropy, MultiClassHinge, MeanSquaredError };

// Where weights and biases begin.
// Scaled: normal weights, their deviation from the layer's size (He et al. 2015 before a ReLU, else
// Glorot, Bengio 2010); biases 0; an LSTM's forget biases 1.
// Paper: what the ADSP paper's network takes from TensorFlow's CIFAR-10 tutorial. Normal weights of
// deviation 0.05 in convolutions and 1/192 in the last layer; biases 0.1 in all convolutions but
// the first, else 0.
enum class Init { Scaled, Paper };

struct ModelSpec {
  std::string name;
  Shape input;
  std::vector<Layer> layers;
  Loss loss = Loss::SoftmaxCrossEntropy;
  int classes = 0;  // outputs of the last layer; 1: a number, learned by MeanSquaredError
  Init init = Init::Scaled;
  // [classes]: what the loss of a sample of each counts; empty: all count 1. The loss of a batch is
  // the mean of weight x loss, in steps and in evaluations.
  std::vector<float> class_weights = {};
};

// Where one layer's parameters lie in the flat vector, and the shapes around it.
struct LayerPlan {
  Shape input;
  Shape output;
  std::uint64_t weight_offset = 0;
  std::uint64_t weight_count = 0;
  std::uint64_t bias_offset = 0;
  std::uint64_t bias_count = 0;
  std::uint64_t fan_in = 0;
};

// Returns: one plan a layer; BadInput naming the layer whose input does not fit.
[[nodiscard]] Result<std::vector<LayerPlan>> plan_layers(const ModelSpec& spec);

// Requires: a spec that plan_layers accepts.
std::uint64_t parameter_count(const ModelSpec& spec);

// Initial values from the seed, as spec.init says. Same spec and seed, same bits on every machine.
std::vector<float> initial_parameters(const ModelSpec& spec, std::uint64_t seed);
// Those of `range` alone, in memory of its size. Requires: a range within the parameters.
std::vector<float> initial_parameters(const ModelSpec& spec, std::uint64_t seed,
                                      ElementRange range);

// What a user may choose ([model] in the cluster file).
struct ModelOptions {
  std::string kind = "mlp";  // mlp | cnn | lenet | cnn1d | lstm | svm | layers | own | timing
  // mlp: hidden sizes, {64} when empty; cnn1d: filters of each convolution, {64, 64} when empty;
  // lstm: {LSTM size, dense size}, {128, 384} when empty.
  std::vector<int> hidden;
  std::uint64_t parameters = 0;  // timing: a model that is nothing but its size
  Init init = Init::Scaled;      // Paper: cnn only
  std::string start = {};        // a model file with the parameters to begin with; empty: init
  // Patterns of tensor names (train/model/trained_part.hpp).
  std::vector<std::string> fresh = {};   // not taken from `start`
  std::vector<std::string> freeze = {};  // not trained
  // mlp: it has no hidden layers. Linear, logistic or softmax regression.
  bool linear = false;
  std::string layers = {};  // layers: the file that says them (train/model/model_file.hpp)
  // own: what a worker runs, which has the training loop: a Python file, or a command.
  std::string module = {};
  std::vector<std::string> command = {};
};

// Returns: the spec for data of this shape; BadInput naming key, value and remedy, also for a
// timing model, which has none, and for more than kValuesMax parameters. `classes`: as ModelSpec
// has it, so 1 makes a model for regression.
[[nodiscard]] Result<ModelSpec> make_model(const ModelOptions& options, Shape input, int classes);

}  // namespace rubato::train
