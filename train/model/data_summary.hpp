// train/model/data_summary.hpp - how boxes that each hold their own data agree on one input schema:
// what one box says of its file, the merging of what all say, and the schema that follows. A
// summary holds no sample: counts, means, squared deviations, and names of columns, categories and
// classes. docs/data.md lists it field by field. Source: Chan, Golub, LeVeque, "Updating formulae
// and a pairwise algorithm for computing sample variances", Stanford STAN-CS-79-773, 1979. M2: sum
// of squared deviations from the mean. Errors: BadInput, one line: file, line, column by name, what
// was expected, the remedy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "train/model/dataset_options.hpp"
#include "train/model/input_schema.hpp"

namespace rubato::train {

// Count, mean and M2 of some numbers.
struct Moments {
  std::uint64_t count = 0;
  double mean = 0;
  double m2 = 0;
  bool operator==(const Moments&) const = default;
};
Moments merged(const Moments& a, const Moments& b);
double deviation(const Moments& of);  // 0 of no numbers
// To mean 0 and deviation 1. Numbers that are all the same are only shifted.
Scaling scaling_by(const Moments& of);

// Errors: all are 0.
[[nodiscard]] Result<SampleWeights> weights_by(const Moments& of, const std::string& column);

struct ColumnSummary {
  std::string name = {};                     // empty: the file has no header
  std::uint64_t missing = 0;                 // samples, or steps of sequences, without a value
  Moments values = {};                       // numbers: those that are there
  std::vector<std::string> categories = {};  // sorted; empty: numbers, or no value at all
  std::uint64_t others = 0;                  // sparse: values that are not 0
  bool operator==(const ColumnSummary&) const = default;
};

// The scalings of a sparse schema <- without a shift, so that the mean square of a column's values
// that are not 0 becomes 1. Few such values do not tell it, so that of all columns counts as
// kAssumedValues of them. Requires: as many columns as the schema has.
void scale_sparse(std::span<const ColumnSummary> columns, InputSchema& schema);
inline constexpr double kAssumedValues = 30;

struct KnownSchema;  // train/model/known_schema.hpp

struct DataSummary {
  std::uint64_t samples = 0;
  std::string label = {};                             // tables: as InputSchema::label
  std::vector<ColumnSummary> columns = {};            // tables
  std::uint64_t steps = 1;                            // of sequences, whose columns are channels
  bool sparse = false;                                // LIBSVM: columns beyond the last are zeros
  Shape image = {};                                   // images: of one; else no channels
  std::vector<Moments> channels = {};                 // images: [image.channels], pixels 0 to 255
  std::string weight_column = {};                     // as DatasetOptions::weight_column
  std::optional<Moments> weights = {};                // of the samples; none: all count alike
  std::vector<std::size_t> ignored = {};              // RawTable::ignored, sorted
  std::map<std::string, std::uint64_t> classes = {};  // samples of each; none in a regression
  std::optional<Moments> target = {};                 // regression: of the label's numbers
  bool operator==(const DataSummary&) const = default;
};

// What is wrong with a summary, "has ..."; empty: nothing.
std::string fault(const DataSummary& summary);

// Refuses so many classes that they are none. `whose`: "a.csv: has", "the boxes together have".
[[nodiscard]] Result<void> check_class_count(const std::map<std::string, std::uint64_t>& classes,
                                             const std::string& whose);

// The summary of all boxes' data. The key names the box in errors. Boxes are merged in the order of
// their names, so the result has the same bits whoever spoke first. Refuses columns, images or
// labels that differ, and names column and box. Requires: at least one box.
[[nodiscard]] Result<DataSummary> merge(const std::map<std::string, DataSummary>& boxes);

// The schema that all train with. What `stated` says wins: the model that the run starts from,
// class names, categorical columns, no standardisation. Class names are sorted: by value where all
// are numbers, else as text.
[[nodiscard]] Result<InputSchema> agree(const DataSummary& merged, const DatasetOptions& stated);

// agree() for whoever has known_schema(stated).
[[nodiscard]] Result<InputSchema> agree(const DataSummary& merged, const KnownSchema& known,
                                        const DatasetOptions& stated);

// agree() of the boxes, which are merged first.
[[nodiscard]] Result<InputSchema> agree(const std::map<std::string, DataSummary>& boxes,
                                        const DatasetOptions& stated);

// The schema of the file that `stated.schema` names, which needs no agreement and no summaries.
// Requires: stated.schema is not empty.
[[nodiscard]] Result<InputSchema> stated_schema(const DatasetOptions& stated);

// JSON for the wire; limits as for schemas (train/model/input_schema.hpp).
std::string to_text(const DataSummary& summary);
[[nodiscard]] Result<DataSummary> summary_of(std::string_view text);

}  // namespace rubato::train
