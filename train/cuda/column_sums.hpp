// train/cuda/column_sums.hpp - sums over the rows of a matrix: gradients of biases.
// Threads: one owner.
#pragma once

#include "train/cuda/stage.hpp"

namespace rubato::train::cuda {

class ColumnSums {
 public:
  // Of up to `rows_max` rows.
  [[nodiscard]] static Result<ColumnSums> make(Gpu& gpu, int rows_max, int columns);
  // sums [columns] <- those of values [rows, columns]. With y [rows, columns], values are first set
  // to 0 where it is not positive: a ReLU's way back.
  void add(Gpu& gpu, float* values, const float* y, int rows, float* sums) const;

 private:
  int columns_ = 0;
  Memory parts_;  // empty if one thread adds a column
};

}  // namespace rubato::train::cuda
