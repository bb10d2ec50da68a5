// Digits survive: numbers far from 0 enter a model by what they differ in. x = offset + k has the
// standardised value of k, whatever the offset, which is computed here from the small k alone.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/temp_directory.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::train::digits_tests {
namespace {

constexpr int kRows = 50;
// Years, UTM coordinates, counters, Unix seconds, milliseconds, microseconds.
const std::vector<std::int64_t> kOffsets = {
    1,         2'000,         500'000,           16'777'216,
    5'800'000, 1'700'000'000, 1'700'000'000'000, 1'700'000'000'000'000};

std::int64_t part(int row) {
  return 37 * row % 61;
}

DatasetOptions any_file(Task task = Task::Classification) {
  DatasetOptions options;
  options.kind = "";
  options.held_out = 0;
  options.task = task;
  return options;
}

// [kRows]
std::vector<double> standardised() {
  double mean = 0, squares = 0;
  for (int i = 0; i < kRows; ++i) mean += static_cast<double>(part(i)) / kRows;
  for (int i = 0; i < kRows; ++i) squares += std::pow(static_cast<double>(part(i)) - mean, 2);
  std::vector<double> values;
  for (int i = 0; i < kRows; ++i)
    values.push_back((static_cast<double>(part(i)) - mean) / std::sqrt(squares / kRows));
  return values;
}

std::string lines(const std::function<std::string(int)>& line) {
  std::string text;
  for (int i = 0; i < kRows; ++i) text += line(i) + "\n";
  return text;
}

// float64 or int64 of [kRows, 2]
template <class T>
std::string npy(const char* descr, std::int64_t offset) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, 2), }}", descr, kRows);
  header.resize(118 - 1, ' ');
  std::string bytes = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n";
  for (int i = 0; i < kRows; ++i)
    for (const T value : {static_cast<T>(offset + part(i)), static_cast<T>(i % 2)})
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  return bytes;
}

std::vector<float> values_of(const Dataset& data) {
  return std::get<std::vector<float>>(data.features);
}

void near(const std::vector<float>& is, const std::vector<double>& wanted, double tolerance) {
  REQUIRE(is.size() == wanted.size());
  for (std::size_t i = 0; i < is.size(); ++i) CHECK(std::abs(is[i] - wanted[i]) < tolerance);
}

// As a box trains, as one file trains, and as a model predicts.
void check(const std::string& path, double tolerance) {
  CAPTURE(path);
  const std::vector<double> wanted = standardised();
  const InputSchema schema = agree(summarise(path, any_file()).value(), any_file()).value();
  near(values_of(load_local(path, schema, any_file(), 0, 1).value().train), wanted, tolerance);
  near(values_of(read_samples(schema, path, Labels::IfThere).value().data), wanted, tolerance);
  near(values_of(
           read_samples(schema_of(to_text(schema)).value(), path, Labels::Needed).value().data),
       wanted, tolerance);
  DatasetOptions options = any_file();
  options.path = path;
  std::vector<float> trained = values_of(load_dataset(options, 1).value().train);
  std::vector<double> sorted = wanted;
  std::ranges::sort(trained);
  std::ranges::sort(sorted);
  near(trained, sorted, tolerance);
}

TEST_CASE("digits: a column far from 0 is scaled by what its numbers differ in") {
  const TempDirectory directory;
  for (const std::int64_t offset : kOffsets) {
    // The offset itself has so many digits as a double.
    const double tolerance = 1e-6 + static_cast<double>(offset) * 1e-17;
    const auto x = [&](int i) { return offset + part(i); };
    check(directory.write(
              "a.csv", "x,y\n" + lines([&](int i) { return fmt::format("{},{}", x(i), i % 2); })),
          tolerance);
    check(directory.write("b.csv", lines([&](int i) {
                            return fmt::format("{:.1f},{}", static_cast<double>(x(i)), i % 2);
                          })),
          tolerance);
    check(
        directory.write("a.svm", lines([&](int i) { return fmt::format("{} 1:{}", i % 2, x(i)); })),
        tolerance);
    check(directory.write("f.npy", npy<double>("<f8", offset)), tolerance);
    check(directory.write("i.npy", npy<std::int64_t>("<i8", offset)), tolerance);
  }
}

TEST_CASE("digits: a constant column is only shifted, however many boxes hold it") {
  const TempDirectory directory;
  for (const char* value : {"0.1", "1700000000.3", "-1e30"}) {
    std::string text = "x,y\n";
    for (int i = 0; i < 3001; ++i) text += fmt::format("{},{}\n", value, i % 2);
    const DataSummary summary = summarise(directory.write("a.csv", text), any_file()).value();
    std::map<std::string, DataSummary> boxes;
    for (int i = 0; i < 100; ++i) boxes[fmt::format("{}", i)] = summary;
    const InputSchema schema = agree(boxes, any_file()).value();
    CHECK(schema.columns[0].scaling.scale == 1);
    CHECK(std::abs(schema.columns[0].scaling.mean / std::stod(value) - 1) < 1e-15);
  }
}

TEST_CASE("digits: two boxes that hold different minutes agree on one scale") {
  const TempDirectory directory;
  std::map<std::string, DataSummary> boxes;
  for (int box = 0; box < 2; ++box) {
    std::string text = "x,y\n";
    for (int i = box * kRows / 2; i < (box + 1) * kRows / 2; ++i)
      text += fmt::format("{},{}\n", 1'700'000'000 + part(i), i % 2);
    const std::string path = directory.write(fmt::format("{}.csv", box), text);
    boxes[path] = summarise(path, any_file()).value();
  }
  const InputSchema schema = agree(boxes, any_file()).value();
  std::vector<float> all;
  for (const auto& [path, summary] : boxes) {
    const auto part_of = values_of(load_local(path, schema, any_file(), 0, 1).value().train);
    all.insert(all.end(), part_of.begin(), part_of.end());
  }
  near(all, standardised(), 1e-6);
}

TEST_CASE("digits: targets of 1.7e9 and a little come back as they were") {
  const TempDirectory directory;
  const auto target = [](int i) { return 1.7e9 + 0.001 * static_cast<double>(part(i)); };
  const std::string path = directory.write(
      "a.csv", "x,y\n" + lines([&](int i) { return fmt::format("{},{:.3f}", i, target(i)); }));
  const DatasetOptions options = any_file(Task::Regression);
  const InputSchema schema = agree(summarise(path, options).value(), options).value();
  const DataSplit split = load_local(path, schema, options, 0, 1).value();
  for (std::size_t i = 0; i < kRows; ++i) {
    CHECK(std::abs(split.train.targets[i] - standardised()[i]) < 1e-4);
    // As float, in which models answer.
    const auto answer = static_cast<float>(split.train.targets[i]);
    CHECK(std::abs(schema.predicted(answer) - target(static_cast<int>(i))) < 1e-6);
  }
}

TEST_CASE("digits: very small numbers are numbers, too large ones are refused by line") {
  const TempDirectory directory;
  const std::string small = directory.write("a.csv", "x,y\n1e-50,0\n3e-50,1\n");
  const InputSchema schema = agree(summarise(small, any_file()).value(), any_file()).value();
  CHECK(values_of(load_local(small, schema, any_file(), 0, 1).value().train) ==
        std::vector<float>{-1, 1});
  const std::string large = directory.write("b.csv", "x,y\n1,0\n1e39,1\n");
  CHECK(summarise(large, any_file()).error().message ==
        large + ":3: column \"x\": \"1e39\" is too large; numbers go up to 3.4e+38");
}

}  // namespace
}  // namespace rubato::train::digits_tests
