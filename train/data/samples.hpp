// train/data/samples.hpp - samples of a file as a model's input: columns found by their names,
// encoded and scaled as the schema says, labels numbered by its classes or, in a regression,
// scaled. Errors: BadInput, one line: file, line, column by name, what was expected, the remedy.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "train/data/dataset.hpp"
#include "train/data/raw_data.hpp"

namespace rubato::train {

// IfThere: for a prediction, which looks at no weights either.
enum class Labels { Needed, IfThere };

struct Samples {
  Dataset data;             // labels and targets are 0 where there are none, or none is wanted
  std::size_t unknown = 0;  // values that are none of the model's categories; they count as none
  LeftOut left_out = {};
  std::vector<std::string> ids = {};  // names of the samples, where they have some
};

// Tables as train/data/data_files.hpp finds them; images of a directory that has test images:
// those. `options`: how the file is written, the label's column where it has another name than in
// the schema, and the column that names the samples.
[[nodiscard]] Result<Samples> read_samples(const InputSchema& schema, const std::string& path,
                                           Labels labels,
                                           const DatasetOptions& options = {.kind = ""});

// `raw` in the schema's columns or image size. `path` names it in errors. Numbers are filled in and
// scaled as doubles; what a model takes is a float then.
[[nodiscard]] Result<Samples> to_samples(RawData raw, const InputSchema& schema,
                                         const std::string& path, Labels labels);

// Refuses the first sample without a label.
[[nodiscard]] Result<void> check_labels(const RawData& raw, const std::string& path);

// The labels as numbers, as a regression takes them. Refuses the first that is missing or no
// number.
[[nodiscard]] Result<std::vector<double>> target_values(const RawData& raw,
                                                        const std::string& path);

}  // namespace rubato::train
