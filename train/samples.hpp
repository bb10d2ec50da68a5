// train/samples.hpp - samples of a file as a trained model's input: columns found by their names,
// scaled as in training, labels numbered by the model's classes.
// Errors: BadInput, one line: file, line, column by name, what was expected, the remedy.
#pragma once

#include <string>

#include "base/result.hpp"
#include "train/dataset.hpp"

namespace rubato::train {

enum class Labels { Needed, IfThere };

struct Samples {
  Dataset data;           // labels are 0 where there are none
  bool labelled = false;  // the file has labels
};

// A table: `path` is a CSV file, or a LIBSVM file where its name ends in .libsvm, .svm or .txt.
// Images: the directory of an image set, whose test images are taken.
[[nodiscard]] Result<Samples> read_samples(const InputSchema& schema, const std::string& path,
                                           Labels labels);

}  // namespace rubato::train
