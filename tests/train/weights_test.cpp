// Weights of samples: what a loss and its gradient make of them on each device, where files have
// them, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/temp_directory.hpp"
#include "tests/train/models.hpp"
#include "tests/train/npy.hpp"
#include "tests/train/npz.hpp"
#include "train/class_report.hpp"
#include "train/data/data_files.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/evaluate.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/known_schema.hpp"
#include "train/regression_report.hpp"

namespace rubato::train::weights_tests {
namespace {

constexpr std::array kTimes = {1, 3, 0, 2, 5, 1};  // how often each sample counts
constexpr std::size_t kRepeated = 12;
constexpr std::size_t kInputs = 4;

struct Answered {
  std::vector<float> inputs, targets, weights;
  std::vector<std::int32_t> labels;

  Batch view() const {
    return {.inputs = inputs,
            .labels = labels,
            .size = static_cast<int>(inputs.size() / kInputs),
            .targets = targets,
            .weights = weights};
  }
};

// Each sample once with a weight, or as often as it counts with none.
Answered samples(bool repeated, bool classes) {
  Rng rng(3);
  Answered all;
  for (const int times : kTimes) {
    std::array<float, kInputs> inputs;
    for (float& input : inputs) input = static_cast<float>(rng.normal());
    const auto label = static_cast<std::int32_t>(rng.below(3));
    const auto target = static_cast<float>(rng.normal());
    for (int i = 0; i < (repeated ? times : 1); ++i) {
      all.inputs.insert(all.inputs.end(), inputs.begin(), inputs.end());
      if (classes) all.labels.push_back(label);
      if (!classes) all.targets.push_back(target);
      if (!repeated)  // of mean 1
        all.weights.push_back(static_cast<float>(times) * kTimes.size() / kRepeated);
    }
  }
  return all;
}

TEST_CASE("weights: k times the weight is the gradient and the loss of k samples") {
  const ModelSpec hinge = make_model({"svm", {}}, {int{kInputs}, 1, 1}, 3).value();
  ModelSpec classes = make_model({"mlp", {5}}, {int{kInputs}, 1, 1}, 3).value();
  classes.class_weights = {0.5f, 2, 7};  // which multiply with them
  const ModelSpec number = make_model({"mlp", {5}}, {int{kInputs}, 1, 1}, 1).value();
  for (const std::string& name : kDevices)
    for (const ModelSpec* const spec :
         std::initializer_list<const ModelSpec*>{&hinge, &classes, &number}) {
      CAPTURE(name);
      CAPTURE(spec->classes);
      const Answered weighted = samples(false, spec->classes > 1);
      const Answered repeated = samples(true, spec->classes > 1);
      REQUIRE(repeated.view().size == kRepeated);
      const auto device = built_device(name, *spec, kRepeated);
      device->load(test_parameters(*spec, 1));
      std::vector<float> expected(device->parameter_count()), got(expected.size());
      const BatchResult all = device->gradient(repeated.view(), expected);
      const BatchResult one = device->gradient(weighted.view(), got);
      CHECK(one.loss_sum / kTimes.size() == doctest::Approx(all.loss_sum / kRepeated));
      CHECK(device->evaluate(weighted.view()).loss_sum == doctest::Approx(one.loss_sum));
      for (std::size_t i = 0; i < got.size(); ++i)
        REQUIRE(got[i] == doctest::Approx(expected[i]).epsilon(1e-4).scale(0.1));
      Answered plain = weighted;
      plain.weights.clear();
      CHECK(device->evaluate(plain.view()).correct == one.correct);
      CHECK(device->evaluate(plain.view()).loss_sum != doctest::Approx(one.loss_sum));
    }
}

// All samples as a data set.
Dataset dataset(const Answered& of, int classes) {
  Dataset data;
  data.shape = {int{kInputs}, 1, 1};
  data.classes = classes;
  data.labels = of.labels;
  data.targets.assign(of.targets.begin(), of.targets.end());
  data.features = of.inputs;
  data.weights = of.weights;
  return data;
}

TEST_CASE("weights: an evaluation weights the loss alone") {
  for (const int outputs : {3, 1}) {
    const ModelSpec spec = make_model({"mlp", {5}}, {int{kInputs}, 1, 1}, outputs).value();
    const auto device = built_device("cpu", spec, 4);  // several batches
    device->load(test_parameters(spec, 1));
    const Dataset weighted = dataset(samples(false, outputs > 1), outputs);
    Dataset plain = weighted;
    plain.weights.clear();
    const Dataset repeated = dataset(samples(true, outputs > 1), outputs);
    const EvaluationResult one = evaluate(*device, weighted), other = evaluate(*device, plain);
    CHECK(one.loss == doctest::Approx(evaluate(*device, repeated).loss));
    CHECK(one.loss != doctest::Approx(other.loss));
    CHECK(one.accuracy == doctest::Approx(other.accuracy));
    if (outputs > 1) continue;
    CHECK(one.squared_error == doctest::Approx(other.loss));
    InputSchema schema;
    schema.target = Scaling{};
    const auto report = regression_report(schema, all_scores(*device, weighted), weighted.targets,
                                          weighted.weights);
    CHECK(report.loss == doctest::Approx(one.loss));
    CHECK(report.r2 == doctest::Approx(other.accuracy));
    CHECK(report.mse == doctest::Approx(other.loss));
  }
}

// --- files --------------------------------------------------------------------------------------

DatasetOptions weighted_by(const std::string& column, const std::string& label = "") {
  DatasetOptions options;
  options.kind = "";
  options.label_column = label;
  options.weight_column = column;
  return options;
}

const std::string kTable = "x,w,y\n1,2,a\n2,0,b\n3,1.5,a\n4,0.5,b\n";
const std::vector<double> kWeights = {2, 0, 1.5, 0.5};

TEST_CASE("weights: a column of a CSV file by name or index, which is no input") {
  const TempDirectory directory;
  const auto read = [&](const std::string& text, const std::string& column) {
    return std::get<RawTable>(
        read_raw(directory.write("a.csv", text), weighted_by(column)).value());
  };
  for (const RawTable& table :
       {read(kTable, "w"), read(kTable, "1"), read(kTable.substr(kTable.find('\n') + 1), "1")}) {
    CHECK(table.weights == kWeights);
    CHECK(table.values == std::vector<double>{1, 2, 3, 4});
    CHECK(table.labels == std::vector<std::string>{"a", "b", "a", "b"});
  }
}

TEST_CASE("weights: a column of .npy, an array of .npz") {
  const TempDirectory directory;
  const std::string npy_path = directory.write(
      "a.npy", npy<double>("<f8", "(4, 3)", {1, 2, 0, 2, 0, 1, 3, 1.5, 0, 4, 0.5, 1}));
  const std::string npz_path = directory.path("a.npz");
  write_npz(npz_path, {{"x", npy<double>("<f8", "(4, 1)", {1, 2, 3, 4})},
                       {"y", npy<std::int64_t>("<i8", "(4,)", {0, 1, 0, 1})},
                       {"w", npy<double>("<f8", "(4,)", kWeights)}});
  for (const auto& [path, column] : {std::pair(npy_path, "1"), std::pair(npz_path, "w")}) {
    const auto table = std::get<RawTable>(read_raw(path, weighted_by(column)).value());
    CHECK(table.weights == kWeights);
    CHECK(table.values == std::vector<double>{1, 2, 3, 4});
    CHECK(table.labels == std::vector<std::string>{"0", "1", "0", "1"});
  }
}

TEST_CASE("weights: what is refused, with its line") {
  const TempDirectory directory;
  const auto refusal = [&](const std::string& name, const std::string& text,
                           const std::string& column) {
    const std::string path = directory.write(name, text);
    const auto read = read_raw(path, weighted_by(column));
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == ErrorCode::BadInput);
    return read.error().message.substr(path.size());
  };
  for (const char* bad : {"-1", "inf", "nan", "heavy", "1e39", ""}) {
    const std::string line = refusal("a.csv", fmt::format("x,w,y\n1,2,a\n2,{},b\n", bad), "w");
    CAPTURE(line);
    CHECK(line.starts_with(":3: "));
    CHECK(line.find("weight") != line.npos);
  }
  CHECK(refusal("a.csv", kTable, "v") ==
        ":1: no column \"v\" for dataset.weight_column; valid: x, w, y");
  CHECK(refusal("a.csv", kTable, "y").find("is the label's column") != std::string::npos);
  CHECK(refusal("a.libsvm", "1 1:2\n0 1:3\n", "w").find("has no weights") != std::string::npos);
  const auto none =
      agree(summarise(directory.write("z.csv", "x,w,y\n1,0,a\n2,0,b\n"), weighted_by("w")).value(),
            weighted_by("w"));
  CHECK(none.error().message == "dataset.weight_column: all weights in \"w\" are 0");
}

TEST_CASE("weights: of mean 1 over the training samples, or over all boxes together") {
  const TempDirectory directory;
  DatasetOptions options = weighted_by("w", "y");
  options.path = directory.write("a.csv", kTable);
  options.held_out_path = directory.write("b.csv", "y,w,x\na,4,1\nb,2,2\n");
  const DataSplit split = load_dataset(options, 1).value();
  CHECK(split.schema.weights == SampleWeights{"w", 1});
  CHECK(split.train.weights == std::vector<float>{2, 0, 1.5f, 0.5f});
  CHECK(split.held_out.weights == std::vector<float>{4, 2});

  const DataSummary a = summarise(options.path, options).value();
  const DataSummary b = summarise(options.held_out_path, options).value();
  CHECK(summary_of(to_text(a)).value() == a);
  const InputSchema schema = agree({{"a", a}, {"b", b}}, options).value();
  CHECK(schema.weights->column == "w");
  CHECK(schema.weights->mean == doctest::Approx(10.0 / 6));
  CHECK(schema_of(to_text(schema)).value() == schema);
  CHECK(schema.columns.size() == 1);
  const DataSplit box = load_local(options.held_out_path, schema, options, 0, 1).value();
  CHECK(box.train.weights.at(0) == doctest::Approx(2.4));
  CHECK(box.train.weights.at(1) == doctest::Approx(1.2));
  auto plain = options;
  plain.weight_column.clear();
  CHECK(agree({{"a", a}, {"b", summarise(options.path, plain).value()}}, options)
            .error()
            .message.find("weight_column") != std::string::npos);
}

TEST_CASE("weights: evaluate uses the file's if it has some, predict looks at none") {
  const TempDirectory directory;
  const auto options = weighted_by("w");
  const InputSchema schema =
      agree(summarise(directory.write("a.csv", kTable), options).value(), options).value();
  const auto weights = [&](const std::string& text, Labels labels) {
    return read_samples(schema, directory.write("b.csv", text), labels).value().data.weights;
  };
  CHECK(weights("w,y,x\n3,a,1\n", Labels::Needed) == std::vector<float>{3});
  CHECK(weights("y,x\na,1\n", Labels::Needed).empty());
  CHECK(weights("w,y,x\n-3,a,1\n", Labels::IfThere).empty());
  CHECK_FALSE(read_samples(schema, directory.write("b.csv", "w,y,x\n-3,a,1\n"), Labels::Needed));

  // Without names: all columns of the training's file, or the model's alone.
  const InputSchema by_place =
      agree(summarise(directory.write("c.csv", "1,2,5,a\n2,1,6,b\n3,1,7,a\n"), weighted_by("1"))
                .value(),
            weighted_by("1"))
          .value();
  const auto read = [&](const std::string& text, Labels labels) {
    return read_samples(by_place, directory.write("d.csv", text), labels);
  };
  CHECK(read("2,4,6,b\n", Labels::Needed).value().data.weights.at(0) == doctest::Approx(3));
  CHECK(std::get<std::vector<float>>(read("2,x,6,b\n", Labels::IfThere).value().data.features) ==
        std::vector<float>{0, 0});
  CHECK(std::get<std::vector<float>>(read("2,6\n", Labels::IfThere).value().data.features) ==
        std::vector<float>{0, 0});
  CHECK_FALSE(read("2,4,6\n", Labels::IfThere));
}

TEST_CASE("weights: a stated schema says where they are") {
  const TempDirectory directory;
  DatasetOptions options = weighted_by("w");
  options.path = directory.write("a.csv", kTable);
  InputSchema schema = agree(summarise(options.path, options).value(), options).value();
  schema.weights->mean = 2;
  options.held_out = 0;
  options.schema = directory.write("s.json", to_text(schema));
  for (const char* column : {"w", ""}) {
    options.weight_column = column;
    CHECK(load_dataset(options, 1).value().train.weights.at(0) <= 1);
    CHECK(load_dataset(options, 1).value().schema.weights->mean == 2);
  }
  options.weight_column = "v";
  CHECK(load_dataset(options, 1).error().message.find("weights by w, and dataset.weight_column") !=
        std::string::npos);
}

}  // namespace
}  // namespace rubato::train::weights_tests
