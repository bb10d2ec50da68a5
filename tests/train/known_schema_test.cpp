// A run that starts from a model takes its columns, categories, classes and scaling by name.
#include <doctest/doctest.h>
#include <png.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "tests/temp_directory.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/known_schema.hpp"
#include "train/model/model_file.hpp"

namespace rubato::train::known_schema_tests {
namespace {

const Column kAge{.name = "age", .fill = 40, .scaling = {40, 0.1}};
const Column kCity{.name = "city", .categories = {"Bern", "Rome"}, .indicator = true};

// The classes stand in an order of their own.
std::string write_start(const TempDirectory& directory, InputSchema schema) {
  TrainedModel model;
  model.spec = make_model({.kind = "mlp", .hidden = {3}}, schema.shape, schema.outputs()).value();
  model.parameters = initial_parameters(model.spec, 1);
  model.schema = std::move(schema);
  const std::string path = directory.path("start.safetensors");
  REQUIRE(write_model(path, model));
  return path;
}

InputSchema people() {
  return {
      .shape = {4, 1, 1}, .columns = {kAge, kCity}, .label = "risk", .classes = {"low", "high"}};
}

// The same of data with so many samples of each class.
InputSchema counted_in(InputSchema schema, std::vector<std::uint64_t> samples) {
  schema.class_samples = std::move(samples);
  return schema;
}

DatasetOptions from(const std::string& start, const std::string& data) {
  DatasetOptions options;
  options.kind = {};
  options.path = data;
  options.held_out = 0;
  options.start = start;
  return options;
}

std::string refusal(const DatasetOptions& options) {
  const auto split = load_dataset(options, 1);
  REQUIRE_FALSE(split.has_value());
  return split.error().message;
}

TEST_CASE("start: columns by name in any order, others are not looked at, scaling is kept") {
  const TempDirectory directory;
  const std::string start = write_start(directory, people());
  const std::string data =
      directory.write("new.csv", "note,risk,city,age\nx,high,Rome,50\n7,high,,\ny,low,Bern,1000\n");
  const DataSplit split = load_dataset(from(start, data), 1).value();
  CHECK(split.schema == counted_in(people(), {1, 2}));
  // Each sample: age, Bern, Rome, no city; the label by the file's order. Training shuffles.
  std::vector<std::vector<float>> rows;
  const auto& values = std::get<std::vector<float>>(split.train.features);
  for (std::size_t i = 0; i < 3; ++i) {
    rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(4 * i),
                      values.begin() + static_cast<std::ptrdiff_t>(4 * i + 4));
    rows.back().push_back(static_cast<float>(split.train.labels[i]));
  }
  std::ranges::sort(rows);
  CHECK(rows ==
        std::vector<std::vector<float>>{{0, 0, 0, 1, 1}, {1, 0, 1, 0, 1}, {96, 1, 0, 0, 0}});
  // Boxes with data of their own take the same.
  const auto summary = summarise(data, from(start, data)).value();
  CHECK(agree({{"pi", summary}}, from(start, data)).value() == counted_in(people(), {1, 2}));
}

TEST_CASE("start: what cannot be matched is refused by name") {
  const TempDirectory directory;
  const std::string start = write_start(directory, people());
  const auto refused = [&](const std::string& text) {
    return refusal(from(start, directory.write("x.csv", text))).substr(directory.path("").size());
  };
  CHECK(refused("aeg,city,risk\n1,Rome,low\n") ==
        "x.csv:1: no column \"age\", which the model needs; did you mean aeg?");
  CHECK(refused("age,city,risk\n1,Roma,low\n")
            .starts_with("x.csv:2: column \"city\": \"Roma\" is not one of the 2 agreed"));
  CHECK(refused("age,city,risk\n1,Rome,none\n") ==
        "x.csv:2: label \"none\" is none of the 2 classes; valid: low, high");

  DatasetOptions options = from(start, directory.write("x.csv", "age,city,risk\n1,Rome,low\n"));
  options.class_names = {"high", "low"};
  CHECK(refusal(options).starts_with("dataset.class_names: " + start +
                                     " has the classes low, high;"));
  options.class_names.clear();
  options.ignore = {"city"};
  CHECK(refusal(options).find("needs column \"city\"") != std::string::npos);
  options.ignore.clear();
  options.categorical = {"age"};
  CHECK(refusal(options).starts_with("dataset.categorical: column \"age\" holds numbers in the"));
  options.categorical.clear();
  options.task = Task::Regression;
  CHECK(refusal(options).starts_with("model.start: " + start +
                                     " predicts classes, and dataset.task"));
}

TEST_CASE("start: a layer that begins anew leaves its side to the data") {
  const TempDirectory directory;
  const std::string start = write_start(directory, people());
  const std::string data =
      directory.write("new.csv", "city,age,kind\nRome,50,oak\nBern,60,ash\nRome,70,elm\n");
  DatasetOptions options = from(start, data);
  options.fresh = {"dense2.*"};
  const InputSchema outputs = load_dataset(options, 1).value().schema;
  CHECK(outputs.columns == people().columns);
  CHECK(outputs.classes == std::vector<std::string>{"ash", "elm", "oak"});
  CHECK(outputs.label == "kind");

  options = from(start, directory.write("b.csv", "weight,risk\n50,high\n60,low\n70,low\n"));
  options.fresh = {"dense1.*"};
  const InputSchema inputs = load_dataset(options, 1).value().schema;
  CHECK(inputs.columns.at(0).name == "weight");
  CHECK(inputs.columns.at(0).scaling.mean == doctest::Approx(60));
  CHECK(inputs.classes == people().classes);
  options.path = directory.write("c.csv", "weight,risk\n50,high\n60,lwo\n");
  CHECK(refusal(options).find("class \"lwo\" is in the data, but not in the model of model.start; "
                              "did you mean low?") != std::string::npos);
}

TEST_CASE("start: marks for missing values stay, and the run's own come beside them") {
  const TempDirectory directory;
  InputSchema schema = people();
  schema.missing = {"-"};
  const std::string start = write_start(directory, schema);
  DatasetOptions options =
      from(start, directory.write("new.csv", "city,age,risk\n-,50,high\ngone,-,low\nRome,1,low\n"));
  options.text.missing = {"gone"};
  const InputSchema known = load_dataset(options, 1).value().schema;
  CHECK(known.missing == std::vector<std::string>{"-", "gone"});
  CHECK(known.columns == people().columns);
  // Where columns follow from the data, so do their marks.
  options.fresh = {"dense1.*"};
  CHECK(load_dataset(options, 1).error().message.find("\"-\" is not a number") !=
        std::string::npos);
}

TEST_CASE("start: the weights of samples are the run's own") {
  const TempDirectory directory;
  InputSchema schema = people();
  schema.weights = {"w", 7};
  const std::string start = write_start(directory, schema);
  const std::string data =
      directory.write("new.csv", "city,v,age,risk\nRome,1,50,high\nBern,5,96,low\n");
  DatasetOptions options = from(start, data);
  CHECK_FALSE(load_dataset(options, 1).value().schema.weights);
  options.weight_column = "v";
  const DataSplit split = load_dataset(options, 1).value();
  CHECK(split.schema.weights == SampleWeights{"v", 3});
  CHECK(split.schema.columns == people().columns);
  CHECK(split.schema.classes == people().classes);
  CHECK(split.train.weights.size() == 2);
  const auto agreed = agree({{"pi", summarise(data, options).value()}}, options).value();
  CHECK(agreed.weights == split.schema.weights);
  CHECK(agreed.columns == people().columns);
}

TEST_CASE("start: a target keeps its scaling") {
  const TempDirectory directory;
  InputSchema schema = people();
  schema.classes.clear();
  schema.label = "rent";
  schema.target = {900, 0.01};
  const std::string start = write_start(directory, schema);
  DatasetOptions options = from(start, directory.write("new.csv", "rent,age,city\n1000,50,Rome\n"));
  options.task = Task::Regression;
  const DataSplit split = load_dataset(options, 1).value();
  CHECK(split.schema == schema);
  CHECK(split.train.targets.at(0) == doctest::Approx(1));
}

void write_grey(const std::string& path, unsigned side, std::uint8_t value) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = side;
  image.format = PNG_FORMAT_GRAY;
  const std::vector<std::uint8_t> pixels(side * side, value);
  REQUIRE(png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr) == 1);
}

TEST_CASE(
    "start: folders are classes by their names, never by position, and sizes are the model's") {
  const TempDirectory directory;
  const InputSchema schema = {.shape = {1, 4, 4},
                              .pixels = true,
                              .scalings = {{100, 0.01}},
                              .classes = {"rose", "1", "ash"}};
  const std::string start = write_start(directory, schema);
  write_grey(directory.path("a/ash/1.png"), 8, 200);
  write_grey(directory.path("a/1/1.png"), 6, 200);
  const DataSplit split = load_dataset(from(start, directory.path("a")), 1).value();
  CHECK(split.schema == counted_in(schema, {0, 1, 1}));
  std::vector<std::int32_t> labels = split.train.labels;
  std::ranges::sort(labels);
  CHECK(labels == std::vector<std::int32_t>{1, 2});
  write_grey(directory.path("b/0/1.png"), 4, 200);
  write_grey(directory.path("b/ash/1.png"), 4, 200);
  CHECK(refusal(from(start, directory.path("b"))).find("label \"0\" is none of the 3 classes") !=
        std::string::npos);
  const auto evaluated = read_samples(schema, directory.path("b"), Labels::Needed);
  REQUIRE_FALSE(evaluated.has_value());
  CHECK(evaluated.error().message.find("label \"0\" is none of the 3") != std::string::npos);
}

TEST_CASE("samples: a file without names of columns is none for a model that has them") {
  const TempDirectory directory;
  const std::string path = directory.write("x.libsvm", "1 1:2 2:1\n");
  const auto read = read_samples(people(), path, Labels::IfThere);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().message ==
        path +
            ": has no names of columns, and the model knows its own by name (age, ...); give a "
            "CSV file with a header");
  InputSchema nameless = people();
  for (Column& column : nameless.columns) column.name.clear();
  const auto texts = read_samples(nameless, path, Labels::IfThere);
  REQUIRE_FALSE(texts.has_value());
  CHECK(texts.error().message ==
        path + ": holds numbers only, and column 1 of the model holds texts; give a CSV file");
}

TEST_CASE(
    "samples: what a model has not seen counts by one rule, and what is no number is refused") {
  const TempDirectory directory;
  const auto read = [&](const std::string& row) {
    return read_samples(people(), directory.write("x.csv", "age,city\n40,Bern\n" + row + "\n"),
                        Labels::IfThere);
  };
  const auto inputs = [&](const std::string& row) {
    const auto samples = read(row).value();
    const auto& values = std::get<std::vector<float>>(samples.data.features);
    return std::vector<float>(values.begin() + 4, values.end());
  };
  using V = std::vector<float>;
  CHECK(inputs(",Rome") == V{0, 0, 1, 0});  // the fill; no indicator was trained
  CHECK(inputs("NA,?") == V{0, 0, 0, 1});
  CHECK(inputs("50,Roma") == V{1, 0, 0, 0});
  CHECK(read("50,Roma").value().unknown == 1);
  CHECK(inputs("50,\"\"") == V{1, 0, 0, 1});
  CHECK(inputs("1e20,Bern") == V{1e19F, 1, 0, 0});
  for (const char* number : {"inf", "-inf", "Infinity", "1e39", "3e31"}) {
    CAPTURE(number);
    const auto refused = read(std::string(number) + ",Bern");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.starts_with(directory.path("x.csv") + ":3: column \"age\": "));
  }
}

}  // namespace
}  // namespace rubato::train::known_schema_tests
