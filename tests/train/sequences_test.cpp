// Sequences [samples, steps, channels] of NumPy: read, summarised, scaled, agreed on, and refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tests/temp_directory.hpp"
#include "tests/train/npy.hpp"
#include "tests/train/npz.hpp"
#include "train/data/data_files.hpp"
#include "train/data/data_hints.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/model_file.hpp"

namespace rubato::train::sequences {
namespace {

using Words = std::vector<std::string>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

DatasetOptions any_kind() {
  DatasetOptions options;
  options.kind.clear();
  return options;
}

// Two sequences of three steps of two channels, and their labels.
const std::vector<double> kValues = {1, 100, 2, 200, 3, 300, 4, 400, 5, 500, 6, 600};

std::string write(const TempDirectory& directory, const std::string& x,
                  const std::string& name = "a.npz") {
  const std::string path = directory.path(name);
  write_npz(path, {{"x", x}, {"y", npy<std::int64_t>("<i8", "(2,)", {7, 8})}});
  return path;
}

std::string refusal(const std::string& x) {
  const TempDirectory directory;
  const std::string path = write(directory, x);
  const auto read = read_raw(path, any_kind());
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code == ErrorCode::BadInput);
  return read.error().message.substr(path.size());
}

const std::vector<float>& values(const Dataset& data) {
  return std::get<std::vector<float>>(data.features);
}

TEST_CASE("sequences: numbers of [samples, steps, channels], in any type and order") {
  const TempDirectory directory;
  std::vector<float> floats(kValues.begin(), kValues.end());
  std::vector<std::int16_t> whole(kValues.begin(), kValues.end());
  // The first index runs fastest.
  std::vector<double> by_column;
  for (std::size_t channel = 0; channel < 2; ++channel)
    for (std::size_t step = 0; step < 3; ++step)
      for (std::size_t sample = 0; sample < 2; ++sample)
        by_column.push_back(kValues[(sample * 3 + step) * 2 + channel]);
  std::string fortran = npy<double>("<f8", "(2, 3, 2)", by_column);
  fortran.replace(fortran.find("False"), 5, "True ");
  for (const std::string& x :
       {npy<double>("<f8", "(2, 3, 2)", kValues), npy<float>("<f4", "(2, 3, 2)", floats),
        npy<std::int16_t>("<i2", "(2, 3, 2)", whole), fortran}) {
    const auto table = std::get<RawTable>(read_raw(write(directory, x), any_kind()).value());
    CHECK(table.rows() == 2);
    CHECK(table.steps == 3);
    CHECK(table.columns.size() == 2);
    CHECK(table.values == kValues);
    CHECK(table.labels == Words{"7", "8"});
  }
}

TEST_CASE("sequences: bytes of three dimensions stay images") {
  const TempDirectory directory;
  const std::vector<std::uint8_t> bytes(12, 3);
  const auto raw =
      read_raw(write(directory, npy<std::uint8_t>("|u1", "(2, 3, 2)", bytes)), any_kind()).value();
  CHECK(std::get<RawImages>(raw).shape == Shape{1, 3, 2});
}

TEST_CASE("sequences: an array alone has no labels, and can be predicted") {
  const TempDirectory directory;
  const auto raw = [&](const std::string& bytes) {
    return read_raw(directory.write("a.npy", bytes), any_kind()).value();
  };
  const auto table = std::get<RawTable>(raw(npy<double>("<f8", "(2, 3, 2)", kValues)));
  CHECK(table.steps == 3);
  CHECK(table.values == kValues);
  CHECK(table.labels.empty());
  const std::vector<std::uint8_t> bytes(12, 3);
  CHECK(std::get<RawImages>(raw(npy<std::uint8_t>("|u1", "(2, 3, 2)", bytes))).shape ==
        Shape{1, 3, 2});
  CHECK(std::get<RawImages>(raw(npy<std::uint8_t>("|u1", "(1, 2, 2, 3)", bytes))).shape ==
        Shape{3, 2, 2});

  const std::string path = directory.path("a.npy");
  directory.write("a.npy", npy<double>("<f8", "(2, 3, 2)", kValues));
  CHECK(summarise(path, any_kind()).error().message.starts_with(path + ": has no labels"));
  const InputSchema schema =
      agree(
          summarise(write(directory, npy<double>("<f8", "(2, 3, 2)", kValues)), any_kind()).value(),
          any_kind())
          .value();
  const Samples alone = read_samples(schema, path, Labels::IfThere).value();
  const Samples labelled = read_samples(schema, directory.path("a.npz"), Labels::IfThere).value();
  CHECK(values(alone.data) == values(labelled.data));
  CHECK_FALSE(read_samples(schema, path, Labels::Needed).has_value());
}

TEST_CASE("sequences: labels may be missing or texts, samples may have weights") {
  const TempDirectory directory;
  const std::string path = directory.path("a.npz");
  // "on" and "off", of three characters of four bytes.
  std::string texts;
  for (const char c : std::string("on\0off", 6)) texts += std::string(1, c) + std::string(3, '\0');
  write_npz(path, {{"x", npy<float>("<f4", "(2, 2, 1)", {1, 2, 3, 4})},
                   {"y", npy<char>("<U3", "(2,)", {texts.begin(), texts.end()})}});
  CHECK(summarise(path, any_kind()).value().classes ==
        std::map<std::string, std::uint64_t>{{"off", 1}, {"on", 1}});

  write_npz(path, {{"x", npy<float>("<f4", "(3, 2, 1)", {1, 2, 3, 4, 5, 6})},
                   {"y", npy<double>("<f8", "(3,)", {1.5, kNaN, 0.5})},
                   {"w", npy<double>("<f8", "(3,)", {3, 7, 1})}});
  DatasetOptions options = any_kind();
  options.task = Task::Regression;
  options.weight_column = "w";
  CHECK(summarise(path, options)
            .error()
            .message.starts_with(path + ", sample 1: column y: no value"));
  options.skip_unlabelled = true;
  const DataSummary summary = summarise(path, options).value();
  CHECK(summary.samples == 2);
  CHECK(summary.columns[0].values == Moments{4, 3.5, 17});
  CHECK(summary.target == Moments{2, 1, 0.5});
  const InputSchema schema = agree(summary, options).value();
  CHECK(schema.weights->mean == 2);
  const Dataset data = load_local(path, schema, options, 0, 1).value().train;
  CHECK(data.weights == std::vector<float>{1.5, 0.5});
  CHECK(data.targets == std::vector<double>{1, -1});
}

TEST_CASE("sequences: what is no sequence is one line") {
  CHECK(refusal(npy<double>("<f8", "(2, 1, 6)", kValues)) ==
        ": holds sequences of one step; save them as [samples, columns]");
  CHECK(refusal(npy<double>("<f8", "(2, 0, 6)", {})) == ": holds no samples");
  auto endless = kValues;
  endless[9] = std::numeric_limits<double>::infinity();
  CHECK(refusal(npy<double>("<f8", "(2, 3, 2)", endless)) ==
        ": sample 1, step 1, channel 1: is infinite or larger than 3.4e+38; mend it");
}

// One mean and one deviation a channel, over all samples and steps. What is missing is the mean.
TEST_CASE("sequences: each channel is scaled, and what is missing is its mean") {
  const TempDirectory directory;
  auto gaps = kValues;
  gaps[2] = kNaN;  // sample 0, step 1, channel 0: the others are 1, 3, 4, 5, 6
  const std::string path = write(directory, npy<double>("<f8", "(2, 3, 2)", gaps));
  DatasetOptions options = any_kind();
  const DataSummary summary = summarise(path, options).value();
  CHECK(summary.samples == 2);
  CHECK(summary.steps == 3);
  CHECK(summary.columns[0].missing == 1);
  CHECK(summary.columns[0].values == Moments{5, 3.8, 14.8});
  CHECK(summary.columns[1].values.mean == 350);
  CHECK(summary_of(to_text(summary)).value() == summary);

  const InputSchema schema = agree(summary, options).value();
  CHECK(schema.shape == Shape{1, 3, 2});
  CHECK(schema.steps() == 3);
  CHECK(schema.classes == Words{"7", "8"});
  CHECK(schema_of(to_text(schema)).value() == schema);
  const Samples samples = read_samples(schema, path, Labels::Needed).value();
  CHECK(samples.data.shape == Shape{1, 3, 2});
  CHECK(samples.data.labels == std::vector<std::int32_t>{0, 1});
  const double deviation = std::sqrt(14.8 / 5),
               other = std::sqrt((250. * 250 * 2 + 150. * 150 * 2 + 50. * 50 * 2) / 6);
  const auto& inputs = values(samples.data);
  REQUIRE(inputs.size() == 12);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double expected = std::isnan(gaps[i]) ? 0
                            : i % 2 == 0        ? (gaps[i] - 3.8) / deviation
                                                : (gaps[i] - 350) / other;
    CHECK(inputs[i] == doctest::Approx(expected).epsilon(1e-6));
  }

  options.path = path;
  options.kind = "numpy";
  options.held_out = 0.5;  // the mean is that of the training sample alone
  const DataSplit split = load_dataset(options, 1).value();
  CHECK(split.train.size() == 1);
  double sum = 0;
  for (std::size_t i = 1; i < 6; i += 2) sum += values(split.train)[i];
  CHECK(sum == doctest::Approx(0).epsilon(1e-6));
}

TEST_CASE("sequences: digits of times within a minute survive") {
  const TempDirectory directory;
  std::vector<double> times;
  for (int i = 0; i < 12; ++i) times.push_back(1.7e9 + i);
  const std::string path = write(directory, npy<double>("<f8", "(2, 6, 1)", times));
  const InputSchema schema = agree(summarise(path, any_kind()).value(), any_kind()).value();
  const Samples samples = read_samples(schema, path, Labels::Needed).value();
  const double deviation = std::sqrt(143.0 / 12);
  for (std::size_t i = 0; i < 12; ++i)
    CHECK(values(samples.data)[i] ==
          doctest::Approx((static_cast<double>(i) - 5.5) / deviation).epsilon(1e-6));
}

TEST_CASE(
    "sequences: other steps, other channels, tables and images are refused by what they are") {
  const TempDirectory directory;
  const std::string path = write(directory, npy<double>("<f8", "(2, 3, 2)", kValues));
  const DataSummary summary = summarise(path, any_kind()).value();
  const InputSchema schema = agree(summary, any_kind()).value();
  const auto line = [&](const std::string& file) {
    const auto read = read_samples(schema, file, Labels::IfThere);
    REQUIRE_FALSE(read.has_value());
    return read.error().message.substr(file.size());
  };
  const std::string wanted = ", and the model takes sequences of 3 steps of 2 channels";
  CHECK(line(write(directory, npy<double>("<f8", "(2, 2, 3)", kValues), "b.npz")) ==
        ": holds sequences of 2 steps of 3 channels" + wanted);
  CHECK(line(write(directory, npy<double>("<f8", "(2, 6)", kValues), "c.npz")) ==
        ": holds a table of 6 columns" + wanted);
  CHECK(line(write(directory, npy<std::uint8_t>("|u1", "(2, 3, 2)", std::vector<std::uint8_t>(12)),
                   "d.npz")) == ": holds images" + wanted + "; give a NumPy file of float32");
  CHECK(line(directory.write("e.csv", "a,b\n1,2\n")) ==
        ": is no NumPy file" + wanted + "; save them by np.savez(file, x=..., y=...)");

  auto far = kValues;
  far[9] = 1e36;  // sample 1, step 1, channel 1
  CHECK(line(write(directory, npy<double>("<f8", "(2, 3, 2)", far), "g.npz"))
            .starts_with(", sample 1: step 1, channel 1: 1e+36 is too far from the numbers of"));
  InputSchema images{.shape = {1, 3, 2}, .pixels = true, .scalings = {{}}, .classes = {"7", "8"}};
  CHECK(read_samples(images, path, Labels::IfThere).error().message ==
        path +
            ": is an array of numbers that are no bytes, and the model takes images of 2 x 3 "
            "pixels; give a directory of images, an IDX file, or a NumPy file of uint8");

  const DataSummary longer =
      summarise(write(directory, npy<double>("<f8", "(2, 2, 3)", kValues), "b.npz"), any_kind())
          .value();
  CHECK(merge({{"p", summary}, {"q", longer}}).error().message ==
        "box p has sequences of 3 steps, box q has sequences of 2 steps; all need samples of the "
        "same length: cut or pad them");
  const DataSummary wider =
      summarise(write(directory, npy<double>("<f8", "(2, 3, 1)", {1, 2, 3, 4, 5, 6}), "f.npz"),
                any_kind())
          .value();
  CHECK(merge({{"p", summary}, {"q", wider}}).error().message ==
        "box p has 2 channels, box q has 1; all need the same");
}

TEST_CASE("sequences: a summary that claims absurd steps is refused") {
  const TempDirectory directory;
  DataSummary summary =
      summarise(write(directory, npy<double>("<f8", "(2, 3, 2)", kValues)), any_kind()).value();
  summary.steps = std::uint64_t{1} << 40;
  CHECK_FALSE(summary_of(to_text(summary)).has_value());
  summary.steps = 0;
  CHECK_FALSE(summary_of(to_text(summary)).has_value());
  // Samples and steps that are possible each, and whose product is 0 in 64 bits.
  const std::string wrapped =
      R"({"samples":1099511627776,"label":"y","steps":16777216,"sparse":false,)"
      R"("columns":[{"missing":0,"values":[0,0.0,0.0]}],"classes":[["a",1099511627776]]})";
  CHECK(summary_of(wrapped).error().message == "a data summary that has samples of 16777216 steps");
}

TEST_CASE("sequences: a run that starts from a model keeps its channels and scaling") {
  const TempDirectory directory;
  const DataSummary summary =
      summarise(write(directory, npy<double>("<f8", "(2, 3, 2)", kValues)), any_kind()).value();
  TrainedModel model;
  model.schema = agree(summary, any_kind()).value();
  model.spec = make_model({.kind = "lstm", .hidden = {4, 4}}, model.schema.shape, 2).value();
  model.parameters = initial_parameters(model.spec, 1);
  const std::string start = directory.path("start.safetensors");
  REQUIRE(write_model(start, model));
  CHECK(read_model(start).value().schema.columns == model.schema.columns);

  DatasetOptions options = any_kind();
  options.start = start;
  options.held_out = 0;
  auto others = kValues;
  for (double& value : others) value *= 3;
  options.path = write(directory, npy<double>("<f8", "(2, 3, 2)", others), "b.npz");
  CHECK(load_dataset(options, 1).value().schema.columns == model.schema.columns);
  CHECK(agree({{"pi", summarise(options.path, options).value()}}, options).value().columns ==
        model.schema.columns);
  options.path = write(directory, npy<double>("<f8", "(2, 2, 3)", kValues), "c.npz");
  CHECK(load_dataset(options, 1).error().message ==
        options.path +
            ": holds sequences of 2 steps of 3 channels, and the model takes sequences "
            "of 3 steps of 2 channels");
  // A first layer that begins anew leaves steps and channels to the data.
  options.fresh = {"lstm1.*"};
  CHECK(load_dataset(options, 1).value().schema.shape == Shape{1, 2, 3});
}

TEST_CASE("sequences: hints speak of channels") {
  const TempDirectory directory;
  auto empty = kValues;
  for (std::size_t i = 1; i < empty.size(); i += 2) empty[i] = kNaN;
  const auto hints = data_hints(
      summarise(write(directory, npy<double>("<f8", "(2, 3, 2)", empty)), any_kind()).value(),
      any_kind());
  CHECK(std::ranges::count(hints, "Channel \"1\": no sample has a value") == 1);
}

}  // namespace
}  // namespace rubato::train::sequences
