// train/model/tensors.hpp - the parameters of a model as named tensors, in the layout that PyTorch
// uses: what a model file holds, and what the names in a cluster file ("conv1.*") mean. Names: the
// kind of layer and its number among its kind, from 1: "conv1.weight", "dense2.bias",
// "lstm1.weight_ih_l0". An LSTM has one bias here; PyTorch adds a second one, which is zero.
// Pure. Shapes: row-major, as in train/model/model_spec.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/model/model_spec.hpp"

namespace rubato::train {

struct TensorPlace {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;      // where row 0 begins in the flat vector
  std::uint64_t row_stride = 0;  // elements from one row to the next; a row is shape[1:]
  // PyTorch's second LSTM bias: zero in our files; what others have there is added at `offset`.
  bool second = false;

  std::uint64_t rows() const { return shape[0]; }
  std::uint64_t columns() const;  // elements of a row
  std::uint64_t count() const { return rows() * columns(); }
  // Calls f(position in the tensor, position in the flat vector, elements) for each piece that is
  // contiguous in both.
  template <class F>
  void for_each_piece(F f) const {
    if (row_stride == columns()) return f(std::uint64_t{0}, offset, count());
    for (std::uint64_t row = 0; row < rows(); ++row)
      f(row * columns(), offset + row * row_stride, columns());
  }
};

// Every parameter is in exactly one tensor that is not `second`. Requires: a spec that plan_layers
// accepts.
std::vector<TensorPlace> tensor_places(const ModelSpec& spec);

// Names of the layers in order: "conv1", "relu1", "maxpool1", "lrn1", "dense1", "lstm1".
std::vector<std::string> layer_names(const ModelSpec& spec);

}  // namespace rubato::train
