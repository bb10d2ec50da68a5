// Data of mostly zeros: what is read, how it is scaled, and that a model gets the same as from the
// whole rows.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/temp_directory.hpp"
#include "train/data/data_files.hpp"
#include "train/data/dataset.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::train::sparse_tests {
namespace {

constexpr std::size_t kColumns = 60;

// Rows of three values that are not 0 among 60 columns.
std::vector<std::vector<double>> some_rows(std::uint64_t seed, std::size_t count) {
  Rng rng(seed);
  std::vector<std::vector<double>> rows(count, std::vector<double>(kColumns));
  for (auto& row : rows)
    for (int i = 0; i < 3; ++i) row[rng.below(kColumns)] = std::round(1000 * rng.normal()) / 8;
  rows[0][kColumns - 1] = 2.5;  // so that all files have as many columns
  return rows;
}

std::string libsvm(const std::vector<std::vector<double>>& rows) {
  std::string text;
  for (const auto& row : rows) {
    text += row[0] + row[1] + row[2] > 0 ? "1" : "-1";
    for (std::size_t c = 0; c < row.size(); ++c)
      if (row[c] != 0) text += fmt::format(" {}:{}", c + 1, row[c]);
    text += "\n";
  }
  return text;
}

// The rule of docs/data.md, from whole rows.
double scale_of(const std::vector<std::vector<double>>& rows, std::size_t column) {
  double squares = 0, all_squares = 0;
  int others = 0, all_others = 0;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      all_squares += row[c] * row[c];
      all_others += row[c] != 0 ? 1 : 0;
      if (c != column) continue;
      squares += row[c] * row[c];
      others += row[c] != 0 ? 1 : 0;
    }
  return std::sqrt((others + 30) / (squares + 30 * all_squares / all_others));
}

DatasetOptions whole_file(const std::string& path) {
  DatasetOptions options;
  options.kind = {};
  options.path = path;
  options.held_out = 0;
  return options;
}

std::vector<float> gathered(const Dataset& data, std::uint32_t row) {
  std::vector<float> inputs(static_cast<std::size_t>(data.shape.count()));
  std::vector<std::int32_t> label(1);
  data.gather(std::vector<std::uint32_t>{row}, inputs, label);
  return inputs;
}

TEST_CASE("sparse: a model gets the whole row, scaled and not shifted") {
  const TempDirectory directory;
  const auto rows = some_rows(1, 200);
  const std::string path = directory.write("a.svm", libsvm(rows));
  const DataSplit split = load_dataset(whole_file(path), 1).value();
  REQUIRE(split.schema.sparse);
  const Samples samples = read_samples(split.schema, path, Labels::Needed).value();
  REQUIRE(std::holds_alternative<SparseRows<float>>(samples.data.features));
  CHECK(std::get<SparseRows<float>>(samples.data.features).values.size() < 601);
  for (const std::uint32_t row : {0u, 7u, 199u}) {
    const auto inputs = gathered(samples.data, row);
    for (std::size_t c = 0; c < kColumns; ++c) {
      CHECK(split.schema.columns[c].scaling.mean == 0);
      CHECK(inputs[c] == doctest::Approx(rows[row][c] * scale_of(rows, c)));
    }
  }
  CHECK(schema_of(to_text(split.schema)).value() == split.schema);
}

TEST_CASE("sparse: boxes agree on what all of them together have") {
  const TempDirectory directory;
  auto rows = some_rows(1, 150);
  const auto more = some_rows(2, 90);
  DatasetOptions options = whole_file("");
  std::map<std::string, DataSummary> boxes;
  const auto add = [&](const std::string& name, const std::vector<std::vector<double>>& part) {
    const auto said = summarise(directory.write(name + ".svm", libsvm(part)), options).value();
    boxes[name] = summary_of(to_text(said)).value();
  };
  add("a", rows);
  add("b", more);
  const InputSchema schema = agree(boxes, options).value();
  REQUIRE(schema.sparse);
  rows.insert(rows.end(), more.begin(), more.end());
  for (std::size_t c = 0; c < kColumns; ++c)
    CHECK(schema.columns[c].scaling.scale == doctest::Approx(scale_of(rows, c)));
  const DataSummary whole = merge(boxes).value();
  for (std::size_t c = 0; c < kColumns; ++c) {
    std::vector<double> column;
    for (const auto& row : rows) column.push_back(row[c]);
    CHECK(whole.columns[c].values.mean == doctest::Approx(moments(column).mean));
    CHECK(whole.columns[c].values.m2 == doctest::Approx(moments(column).m2));
  }
}

TEST_CASE("sparse: a file of few zeros is a table as any other, and one model reads both kinds") {
  const TempDirectory directory;
  const std::string full = directory.write("full.svm", "1 1:4 2:7\n-1 1:6 2:7\n1 1:8\n");
  const DataSplit split = load_dataset(whole_file(full), 1).value();
  CHECK_FALSE(split.schema.sparse);
  CHECK(split.schema.columns[0].scaling.mean == doctest::Approx(6));
  // Zeros are shifted as others: the row without a value has two of them.
  const std::string thin = directory.write("thin.svm", "1\n1 1:6\n-1\n1\n-1\n1\n");
  const Samples samples = read_samples(split.schema, thin, Labels::Needed).value();
  const double deviation = std::sqrt(8.0 / 3);
  CHECK(gathered(samples.data, 0)[0] == doctest::Approx(-6 / deviation));
  CHECK(gathered(samples.data, 1)[0] == doctest::Approx(0));
  // The other way round: a sparse schema keeps zeros in a file without them.
  const DataSplit sparse =
      load_dataset(whole_file(directory.write("a.svm", libsvm(some_rows(1, 50)))), 1).value();
  std::string row = "1";
  for (std::size_t c = 1; c <= kColumns; ++c) row += fmt::format(" {}:2", c);
  const Samples dense =
      read_samples(sparse.schema, directory.write("b.svm", row + "\n"), Labels::Needed).value();
  for (std::size_t c = 0; c < kColumns; ++c)
    CHECK(gathered(dense.data, 0)[c] ==
          doctest::Approx(2 * sparse.schema.columns[c].scaling.scale));
}

TEST_CASE("sparse: a wrong line that is left out adds no columns, and a missing value is 0") {
  const TempDirectory directory;
  const std::string text = libsvm(some_rows(1, 50));
  const auto with_wrong = read_raw(directory.write("w.svm", text + "1 5:1 900:1 x\n"),
                                   {.kind = "libsvm", .skip_bad = 0.1});
  REQUIRE(with_wrong.has_value());
  CHECK(std::get<RawTable>(*with_wrong).columns.size() == kColumns);
  const DataSplit split = load_dataset(whole_file(directory.write("a.svm", text)), 1).value();
  std::string fields = "1,2";
  for (std::size_t c = 2; c < kColumns; ++c) fields += ",";
  DatasetOptions csv;
  csv.kind = "csv";
  csv.header = false;
  const Samples samples =
      read_samples(split.schema, directory.write("a.csv", fields + "\n"), Labels::IfThere, csv)
          .value();
  const auto inputs = gathered(samples.data, 0);
  CHECK(inputs[1] == doctest::Approx(2 * split.schema.columns[1].scaling.scale));
  for (std::size_t c = 2; c < kColumns; ++c) CHECK(inputs[c] == 0);
}

TEST_CASE("sparse: as they are with standardize = false, and the largest index is bounded") {
  const TempDirectory directory;
  const auto rows = some_rows(3, 40);
  DatasetOptions options = whole_file(directory.write("a.svm", libsvm(rows)));
  options.standardize = false;
  const DataSplit split = load_dataset(options, 1).value();
  const Samples samples = read_samples(split.schema, options.path, Labels::Needed).value();
  for (std::size_t c = 0; c < kColumns; ++c)
    CHECK(gathered(samples.data, 9)[c] == static_cast<float>(rows[9][c]));
  const auto refused = read_raw(directory.write("b.svm", "1 4000000000:1\n"), {.kind = "libsvm"});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.ends_with(
      "1 samples of 4000000000 features in 15 bytes; is the largest index right?"));
}

}  // namespace
}  // namespace rubato::train::sparse_tests
