// Regression: targets from files, scaled over the training samples and agreed over boxes, the
// figures of a model against closed forms, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/temp_directory.hpp"
#include "tests/train/models.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/evaluate.hpp"
#include "train/model/data_summary.hpp"
#include "train/regression_report.hpp"

namespace rubato::train {
namespace {

DatasetOptions numbers(const std::string& kind, const std::string& path = {}) {
  DatasetOptions options;
  options.kind = kind;
  options.path = path;
  options.task = Task::Regression;
  return options;
}

// Rents of so many flats; a number far from 0 with a small spread needs its digits.
std::string flats(int rows, std::uint64_t seed) {
  Rng rng(seed);
  std::string text = "size,zone,rent\n";
  for (int i = 0; i < rows; ++i) {
    const double size = 60 + 20 * rng.normal(), rent = 1e6 + 3 * rng.normal();
    text += fmt::format("{:.2f},{},{:.4f}\n", size, rng.below(2) == 1 ? "a" : "b", rent);
  }
  return text;
}

std::string refusal(const auto& result) {
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::BadInput);
  CHECK(result.error().message.find('\n') == std::string::npos);
  return result.error().message;
}

TEST_CASE("regression: targets have mean 0 and deviation 1 over the training samples alone") {
  const TempDirectory directory;
  const std::string path = directory.write("flats.csv", flats(500, 1));
  const auto split = load_dataset(numbers("csv", path), 3).value();
  CHECK(split.train.task() == Task::Regression);
  CHECK(split.train.labels.empty());
  CHECK(split.train.classes == 1);
  CHECK(split.train.targets.size() == 400);
  CHECK(split.held_out.targets.size() == 100);
  CHECK(split.schema.classes.empty());
  CHECK(split.schema.target_name() == "rent");
  const Moments of = moments(split.train.targets);
  CHECK(std::abs(of.mean) < 1e-9);
  CHECK(of.m2 / 400 == doctest::Approx(1).epsilon(1e-9));

  // Back in the user's unit, all samples are those of the file.
  std::vector<double> found, wanted;
  for (const Dataset* part : {&split.train, &split.held_out})
    for (const double target : part->targets) found.push_back(split.schema.predicted(target));
  const auto raw = read_samples(split.schema, path, Labels::Needed).value();
  for (const double target : raw.data.targets) wanted.push_back(split.schema.predicted(target));
  std::ranges::sort(found);
  std::ranges::sort(wanted);
  for (std::size_t i = 0; i < 500; ++i) REQUIRE(std::abs(found[i] - wanted[i]) < 1e-8);
  Rng rng(1);
  rng.normal();
  const double first = 1e6 + 3 * rng.normal();  // written with four decimals
  CHECK(std::abs(split.schema.predicted(raw.data.targets[0]) - first) < 6e-5);

  // What a device is given are the same targets, as float.
  std::vector<float> inputs(2 * 3), targets(2);
  const std::vector<std::uint32_t> indices = {7, 3};
  split.train.gather(indices, inputs, std::span(targets));
  CHECK(targets[0] == static_cast<float>(split.train.targets[7]));
  CHECK(targets[1] == static_cast<float>(split.train.targets[3]));
}

TEST_CASE("regression: without standardising, targets are learned as they are") {
  const TempDirectory directory;
  DatasetOptions options =
      numbers("csv", directory.write("a.csv", "x,y\n1,10\n2,20\n3,30\n4,40\n"));
  options.standardize = false;
  options.held_out = 0;
  auto targets = load_dataset(options, 1).value().train.targets;
  std::ranges::sort(targets);
  CHECK(targets == std::vector<double>{10, 20, 30, 40});
}

TEST_CASE("regression: LIBSVM labels are numbers of any kind") {
  const TempDirectory directory;
  const std::string path = directory.write("a.libsvm", "1.5 1:1\n-2e3 2:1\n+7 1:3 2:4\n1.5 1:2\n");
  DatasetOptions options = numbers("libsvm", path);
  options.held_out = 0;
  options.standardize = false;
  auto targets = load_dataset(options, 1).value().train.targets;
  std::ranges::sort(targets);
  CHECK(targets == std::vector<double>{-2000, 1.5, 1.5, 7});
}

TEST_CASE("regression: four boxes agree on the target's mean and deviation of the union") {
  const TempDirectory directory;
  std::map<std::string, DataSummary> boxes;
  std::string all;
  for (int box = 0; box < 4; ++box) {
    const std::string text = flats(50 + 100 * box, 10 + static_cast<std::uint64_t>(box));
    all += box == 0 ? text : text.substr(text.find('\n') + 1);
    const auto summary =
        summarise(directory.write(fmt::format("{}.csv", box), text), numbers("")).value();
    CHECK(summary.classes.empty());
    CHECK(summary_of(to_text(summary)).value() == summary);
    boxes[fmt::format("pi-{}", box)] = summary;
  }
  const auto whole = summarise(directory.write("all.csv", all), numbers("")).value();
  const auto merged_all = merge(boxes).value();
  CHECK(merged_all.target->count == whole.target->count);
  CHECK(std::abs(merged_all.target->mean - whole.target->mean) < 1e-12 * 1e6);
  // Deviations of 3 keep the digits that a mean of 1e6 leaves of them.
  CHECK(merged_all.target->m2 == doctest::Approx(whole.target->m2).epsilon(1e-10));
  const auto schema = agree(merged_all, numbers("")).value();
  CHECK(schema.target->mean == merged_all.target->mean);
  CHECK(schema.target->scale == doctest::Approx(std::sqrt(800 / whole.target->m2)).epsilon(1e-10));
  CHECK(schema_of(to_text(schema)).value() == schema);
  CHECK(to_text(schema).find("\"task\":\"regression\"") != std::string::npos);

  const auto box = load_local(directory.path("1.csv"), schema, numbers(""), 0.2, 1).value();
  CHECK(box.train.targets.size() == 120);
  std::vector<std::uint32_t> indices = {0, 1, 2};
  CHECK(samples_text(box.train, indices, schema).find("trains on 3 samples of rent: mean ") == 0);
}

TEST_CASE("regression: a missing target or a text is refused by line and column") {
  const TempDirectory directory;
  const auto message = [&](const std::string& text) {
    const std::string path = directory.write("a.csv", text);
    const std::string line = refusal(summarise(path, numbers("")));
    REQUIRE(line.starts_with(path));
    CHECK(refusal(load_dataset(numbers("csv", path), 1)) == line);
    return line.substr(path.size());
  };
  CHECK(message("x,y\n1,2\n3,red\n") ==
        ":3: column \"y\": \"red\" is not a number; dataset.task = \"regression\" needs one in "
        "each sample");
  for (const std::string missing : {"", "NA", "?", "nan"})
    CHECK(message("x,y\n1,2\n3," + missing + "\n") ==
          ":3: column \"y\": no value; fill it in, or leave such samples out "
          "(dataset.skip_unlabelled, evaluate --skip-unlabelled)");
  CHECK(message("1,2\n3,inf\n").starts_with(":2: column 1: \"inf\" is not a number"));
}

TEST_CASE("regression: boxes of different tasks, and a schema of the other task, are refused") {
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", "x,y\n1,2\n3,4\n");
  DatasetOptions classes;
  classes.kind = "";
  CHECK(refusal(merge({{"a", summarise(path, numbers("")).value()},
                       {"b", summarise(path, classes).value()}})) ==
        "box a learns a number, box b classes; all need the same dataset.task");
  const auto schema = agree(summarise(path, classes).value(), classes).value();
  DatasetOptions stated = numbers("csv", path);
  stated.schema = directory.write("schema.json", to_text(schema));
  CHECK(refusal(load_dataset(stated, 1)).find("is a schema for classification") !=
        std::string::npos);
}

TEST_CASE("regression: who predicts needs no targets, and may have an empty column of them") {
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", "x,y\n1,2\n3,4\n5,9\n");
  const auto schema = agree(summarise(path, numbers("")).value(), numbers("")).value();
  for (const char* text : {"x\n1\n2\n", "x,y\n1,\n2,NA\n"}) {
    const std::string other = directory.write("new.csv", text);
    const auto samples = read_samples(schema, other, Labels::IfThere).value();
    CHECK(samples.data.size() == 2);
    CHECK_FALSE(read_samples(schema, other, Labels::Needed).has_value());
  }
}

TEST_CASE("regression: a summary or a schema that contradicts itself is refused") {
  DataSummary summary{.samples = 2, .label = "y", .columns = {{.name = "x"}}};
  summary.columns[0].values = {2, 1, 1};
  summary.target = Moments{3, 0, 1};
  CHECK(refusal(summary_of(to_text(summary))) ==
        "a data summary that counts other labels than samples");
  summary.target = Moments{2, 0, -1};
  CHECK(refusal(summary_of(to_text(summary))) ==
        "a data summary that has a target that is impossible");
  InputSchema schema{.shape = {1, 1, 1}, .columns = {{.name = "x"}}, .label = "y"};
  schema.target = Scaling{0, 0};
  CHECK(refusal(schema_of(to_text(schema))) ==
        "an input schema that has a target that is impossible");
}

TEST_CASE("regression: loss and R^2 of a known line, in any batches") {
  // The model says 2 x + 1; the targets are off by 1, -1, 2, 0.
  const ModelSpec spec{"line", {1, 1, 1}, {Dense{1}}, Loss::MeanSquaredError, 1};
  Dataset data;
  data.shape = {1, 1, 1};
  data.classes = 1;
  data.targets = {2, 2, 7, 7};
  data.features = std::vector<float>{0, 1, 2, 3};
  for (const int batch : {1, 3, 4}) {
    const auto device = built_device("cpu", spec, batch);
    device->load(std::vector<float>{2, 1});
    const auto result = evaluate(*device, data);
    CHECK(result.loss == doctest::Approx(6 / 4.0));
    CHECK(result.accuracy == doctest::Approx(1 - 6 / 25.0));  // squares around 4.5: 25
    CHECK(result.target_mean == 4.5);
    CHECK(result.target_square == 26.5);
  }
  data.targets = {3, 3, 3, 3};
  const auto device = built_device("cpu", spec, 4);
  CHECK(std::isnan(evaluate(*device, data).accuracy));  // nothing varies
}

TEST_CASE("regression report: closed forms in the target's unit, quantiles and the worst samples") {
  InputSchema schema{.shape = {1, 1, 1}, .columns = plain_columns(1)};
  schema.target = Scaling{100, 0.5};  // y = 100 + 2 t
  std::vector<double> targets;
  std::vector<float> outputs;
  for (int i = 0; i < 20; ++i) {
    targets.push_back(i);
    outputs.push_back(static_cast<float>(i + (i % 2 == 0 ? 0.5 * i : -0.5 * i)));
  }
  const auto report = regression_report(schema, outputs, targets);
  // Residuals in the unit: +-i. Squares of 0 to 19 have a mean of 123.5, their numbers of 9.5.
  CHECK(report.mse == doctest::Approx(123.5));
  CHECK(report.rmse == doctest::Approx(std::sqrt(123.5)));
  CHECK(report.mae == doctest::Approx(9.5));
  CHECK(report.loss == doctest::Approx(123.5 / 4));
  CHECK(report.r2 == doctest::Approx(1 - (123.5 / 4) / (123.5 - 9.5 * 9.5)));
  // Sorted: -19, -17, ..., -1, 0, 2, ..., 18.
  const std::array<double, 7> quantiles = {-19, -19, -11, -1, 8, 16, 18};
  for (std::size_t i = 0; i < quantiles.size(); ++i)
    CHECK(report.residuals[i] == doctest::Approx(quantiles[i]));
  REQUIRE(report.worst.size() == kWorstSamples);
  CHECK(report.worst[0].sample == 19);
  CHECK(report.worst[0].target == doctest::Approx(138));
  CHECK(report.worst[0].predicted == doctest::Approx(119));
  CHECK(report.worst[9].sample == 10);
}

TEST_CASE("regression: every model with one output but the svm, which separates classes") {
  const ModelSpec mlp = make_model({"mlp", {4}}, {3, 1, 1}, 1).value();
  CHECK(mlp.loss == Loss::MeanSquaredError);
  CHECK(parameter_count(mlp) == 3 * 4 + 4 + 4 + 1);
  CHECK(make_model({"cnn", {}}, {3, 9, 11}, 1).value().loss == Loss::MeanSquaredError);
  CHECK(make_model({"lenet", {}}, {1, 28, 28}, 1).value().loss == Loss::MeanSquaredError);
  CHECK(make_model({"cnn1d", {}}, {1, 50, 6}, 1).value().loss == Loss::MeanSquaredError);
  CHECK(make_model({"lstm", {4, 3}}, {2, 7, 3}, 1).value().loss == Loss::MeanSquaredError);
  CHECK(refusal(make_model({"svm", {}}, {3, 1, 1}, 1)) ==
        "model.kind: svm separates classes, and dataset.task = \"regression\" has none; use mlp");
  // Advice that helps: what is named would be taken.
  CHECK(refusal(make_model({"svm", {}}, {1, 28, 28}, 1))
            .ends_with("; use mlp, cnn, lenet, cnn1d or lstm"));
  CHECK(refusal(make_model({"lstm", {}}, {3, 1, 1}, 1))
            .find("is 3 plain features; use mlp, or save sequences as a NumPy array") !=
        std::string::npos);
  CHECK(refusal(make_model({"lstm", {}}, {1, 1, 1}, 2))
            .find("is 1 plain feature; use mlp or svm, or save") != std::string::npos);
}

}  // namespace
}  // namespace rubato::train
