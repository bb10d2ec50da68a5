// train/table_files.hpp - rows of numbers with a label each, from CSV and LIBSVM text files.
// Sources: RFC 4180 (CSV); csie.ntu.edu.tw/~cjlin/libsvm (LIBSVM: "label index:value ...", indices
// from 1, ascending, absent ones 0, "#" starts a comment).
// Errors: Io when the file cannot be read, BadInput "file:line: what" for the first bad line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "train/input_schema.hpp"

namespace rubato::train {

struct LabelledRows {
  std::size_t features = 0;
  std::vector<float> values;         // [rows, features] row-major
  std::vector<std::string> labels;   // [rows]; numbers in one spelling: "+1" and "1.0" are "1"
  std::vector<std::string> columns;  // [features] names; empty: the file has no header
  std::string label;  // the label's column: its name, or its position where there is no header
};

// `features`: how many there are; 0: as many as the highest index in the file.
[[nodiscard]] Result<LabelledRows> read_libsvm(const std::string& path, std::size_t features);

// Fields may be quoted. The first line is a header when `label_column` names one of its fields or
// when one of its feature fields is no number. `label_column`: a name of the header or an index
// from 0; empty: the last column.
[[nodiscard]] Result<LabelledRows> read_csv(const std::string& path,
                                            const std::string& label_column);

// The columns that `schema` names, in its order, from a file that may have others too; without
// names all of them, which must be as many. Labels are empty where the file has none.
[[nodiscard]] Result<LabelledRows> read_csv_as(const std::string& path, const InputSchema& schema);

// The distinct labels, sorted: by value when all are numbers, else as text.
std::vector<std::string> distinct_labels(const std::vector<std::string>& labels);

// Returns: position of each label in `names`; BadInput naming `file` and a label that is not there.
[[nodiscard]] Result<std::vector<std::int32_t>> number_labels(
    const std::vector<std::string>& labels, const std::vector<std::string>& names,
    const std::string& file);

}  // namespace rubato::train
