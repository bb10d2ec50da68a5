// train/model/input_schema.hpp - how raw samples become the input of a model, and what its outputs
// are called: what a trained model needs beside its parameters to be of use elsewhere. All boxes of
// a run train with one schema. Inputs of a table, column by column in the schema's order. A number
// is one input, (x - mean) * scale. A categorical column is one input a category: 1 for the
// sample's own, 0 for the others. A column with an indicator has one input more: 1 where the value
// is missing, else 0. A missing number enters as `fill`; a missing category is zeros. A sequence
// has the inputs of its columns, which are channels then, at each step of time. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/task.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

// A raw value x enters the model as (x - mean) * scale.
struct Scaling {
  double mean = 0;
  double scale = 1;
  bool operator==(const Scaling&) const = default;
};

// One column of a table; images have none.
struct Column {
  std::string name = {};                     // empty: the file has no header
  std::vector<std::string> categories = {};  // sorted; empty: the column holds numbers
  bool indicator = false;                    // one more input says whether the value is missing
  double fill = 0;                           // numbers: what a missing one is taken for
  Scaling scaling = {};                      // numbers

  bool categorical() const { return !categories.empty(); }
  int inputs() const;
  bool operator==(const Column&) const = default;
};

// Where the weights of samples are: their losses count weight / mean.
struct SampleWeights {
  std::string column = {};  // as DatasetOptions::weight_column
  double mean = 1;          // of the training samples, or of all boxes together
  bool operator==(const SampleWeights&) const = default;
};

struct InputSchema {
  Shape shape;          // of one sample as the model takes it; of a sequence {1, steps, inputs}
  bool pixels = false;  // 8-bit images, 0 to 255; else a table
  // A table of mostly zeros, which stay zeros: numbers are scaled and not shifted.
  bool sparse = false;
  std::vector<Column> columns = {};       // tables
  std::string label = {};                 // tables: the label's column, by name; by position from 0
                                          // where the file has no header
  std::vector<Scaling> scalings = {};     // [shape.channels], images
  std::vector<std::string> classes = {};  // names, by label number; empty in a regression
  // [classes]: samples of each that the model is trained on; empty where that is not known.
  std::vector<std::uint64_t> class_samples = {};
  // Regression: the model learns (y - mean) * scale, where y is the number in the label's column.
  std::optional<Scaling> target = {};
  // Tables: fields that stand for no value, beside the usual.
  std::vector<std::string> missing = {};
  std::optional<SampleWeights> weights = {};  // none: all samples count alike
  // Of an older Rubato, which spelled numbers among classes and categories anew: "1.0"
  // was "1".
  bool old_names = false;

  // Of time, of one sample; 1: samples are no sequences.
  int steps() const;
  Task task() const { return target ? Task::Regression : Task::Classification; }
  int outputs() const { return target ? 1 : static_cast<int>(classes.size()); }
  // Where the model gives `output`, it predicts this number, in the user's unit.
  double predicted(double output) const { return target->mean + output / target->scale; }
  // The target's name in texts and files: its column's, or "prediction" where it has none.
  std::string target_name() const;
  bool operator==(const InputSchema&) const = default;
};

// The inputs that these columns are together.
int input_count(const std::vector<Column>& columns);
// Columns without a name, each a number and one input.
std::vector<Column> plain_columns(std::size_t count);

// Limits of what one box may say of its data, and of what all agree on. They keep a stranger from
// filling memory, and a column of free text from becoming a hundred thousand inputs.
inline constexpr std::size_t kColumnsMax = 100'000;
inline constexpr std::size_t kCategoriesMax = 1'000;  // of one column
inline constexpr std::size_t kClassesMax = 10'000;
inline constexpr int kImageSideMax = 16'384;  // pixels
inline constexpr std::size_t kNameBytesMax = 1'000;
inline constexpr std::size_t kSchemaBytesMax = std::size_t{16} << 20;

// JSON, for model files and for the wire. The same schema gives the same bytes.
std::string to_text(const InputSchema& schema);
// Errors: BadInput; one line says what is wrong with the text or which limit it exceeds.
[[nodiscard]] Result<InputSchema> schema_of(std::string_view text);

// The distinct labels, sorted: by value when all are numbers (by text those of one value), else as
// text.
std::vector<std::string> distinct_labels(const std::vector<std::string>& labels);

// What a file calls its column `position`, which has no name: LIBSVM (`sparse`) counts from 1.
inline std::size_t shown_position(std::size_t position, bool sparse) {
  return position + (sparse ? 1 : 0);
}

// A column's name, or the position that stands for it.
std::string shown_name(const std::string& name, std::size_t position, bool sparse);

// "column "age"", or "column 3" of a file without a header.
std::string column_text(const std::string& name, std::size_t position);

}  // namespace rubato::train
