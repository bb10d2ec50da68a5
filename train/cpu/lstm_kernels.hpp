// train/cpu/lstm_kernels.hpp - what an LSTM computes in a time step: products of a few rows with
// weights that stay the same for all time steps, and the four gates. A library packs the weights in
// every product, which takes as long as to multiply so few rows. Here they are packed once.
// A set of kernels is for one kind of vectors.
// Shapes: gates [size, 4 units], i f g o; cells, tanhs [size, units]; all row-major, of any
// alignment, except for packed weights.
// Errors: none. Threads: pure.
#pragma once

#include <cstddef>
#include <vector>

namespace rubato::train {

// The second factor of a product, [k, n], in panels of so many columns as a tile of sums has. The
// columns behind the last are 0.
class PackedWeights {
 public:
  using Index = std::ptrdiff_t;

  // Element (i, j) is first[i * step_i + j * step_j].
  struct View {
    const float* first;
    Index step_i, step_j;
  };

  PackedWeights() = default;
  PackedWeights(Index k, Index n, Index panel);
  // `starts` [n]: what a row of the product starts from; null: 0.
  void pack(View weights, const float* starts);

  Index k() const { return k_; }
  Index n() const { return n_; }
  // [panel]: the starts; then [k, panel]. Aligned to 64 bytes.
  const float* panel(Index number) const { return lines_[number * lines_a_panel_].values; }

 private:
  struct alignas(64) Line {
    float values[16];
  };

  Index k_ = 0, n_ = 0, columns_ = 0, lines_a_panel_ = 0;
  std::vector<Line> lines_;
};

struct LstmKernels {
  using Index = std::ptrdiff_t;
  struct States {
    Index size, units;
  };

  const char* name;
  int panel;  // columns of PackedWeights

  // c [m, n] <- starts + a [m, k] weights; from one row of a or c to the next: row_a, row_c.
  void (*multiply)(const PackedWeights& weights, Index m, const float* a, Index row_a, float* c,
                   Index row_c);
  // gates <- their activations; cells <- f before + i g; tanhs <- tanh(cells); hiddens <- o tanhs.
  // row_hidden: from one row of hiddens to the next. NaN stays NaN.
  void (*forward)(States s, float* gates, const float* before, float* cells, float* tanhs,
                  float* hiddens, Index row_hidden);
  // gates <- d(loss)/d(their sums before the activation), which is added to sums [4 units] as well.
  // dh: the hidden state's gradient; dc: the cell's, which moves to the time step before.
  void (*backward)(States s, float* gates, const float* before, const float* tanhs, const float* dh,
                   float* dc, float* sums);
};

// The sets that this processor can run, the widest first. There is one at least.
const std::vector<const LstmKernels*>& lstm_kernels();

}  // namespace rubato::train
