// train/input_schema.hpp - how raw samples become the input of a model, and what its outputs are
// called: what a trained model needs beside its parameters to be of use elsewhere.
// Pure data.
#pragma once

#include <string>
#include <vector>

#include "train/model_spec.hpp"

namespace rubato::train {

// A raw value x enters the model as (x - mean) * scale.
struct Scaling {
  double mean = 0;
  double scale = 1;
  bool operator==(const Scaling&) const = default;
};

struct InputSchema {
  Shape shape;          // of one sample
  bool pixels = false;  // 8-bit images, 0 to 255; else one number a column
  std::vector<std::string> columns =
      {};  // [shape.count()] names of the columns; empty: they have none
  std::string label =
      {};  // the label's column: its name, or its position where columns have no names
  std::vector<Scaling> scalings = {};     // [shape.channels] of images, else [shape.count()]
  std::vector<std::string> classes = {};  // names, by label number
  bool operator==(const InputSchema&) const = default;
};

}  // namespace rubato::train
