#include "train/data/dataset.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <variant>
#include <vector>

#include "tests/temp_directory.hpp"
#include "tests/train/npy.hpp"

using rubato::TempDirectory;
using rubato::train::DatasetOptions;
using rubato::train::DataSplit;
using rubato::train::known_facts;
using rubato::train::load_dataset;
using rubato::train::Shape;

namespace {

const std::vector<float>& floats(const rubato::train::Dataset& dataset) {
  return std::get<std::vector<float>>(dataset.features);
}

DataSplit load(const DatasetOptions& options, std::uint64_t seed = 1) {
  auto split = load_dataset(options, seed);
  REQUIRE_MESSAGE(split.has_value(), split.error().message);
  return std::move(*split);
}

std::string error_of(const DatasetOptions& options) {
  const auto split = load_dataset(options, 1);
  return split ? "" : split.error().message;
}

// Ten samples: feature 0 counts up from 0, feature 1 is constant, labels alternate.
std::string ten_rows() {
  std::string text = "a,b,label\n";
  for (int i = 0; i < 10; ++i) text += std::to_string(i) + ",5," + (i % 2 ? "odd" : "even") + "\n";
  return text;
}

}  // namespace

TEST_CASE(
    "Fashion-MNIST as Debian packages it: 60,000 and 10,000 images, 6,000 and 1,000 a class") {
  const DataSplit split = load({});
  CHECK(split.train.size() == 60'000);
  CHECK(split.held_out.size() == 10'000);
  CHECK(split.train.shape == Shape{1, 28, 28});
  for (int c = 0; c < 10; ++c) {
    CHECK(std::count(split.train.labels.begin(), split.train.labels.end(), c) == 6'000);
    CHECK(std::count(split.held_out.labels.begin(), split.held_out.labels.end(), c) == 1'000);
  }
  // Standardised with the published mean and deviation of the training pixels: 0.2860, 0.3530.
  const auto& pixel = split.train.pixel_scales.at(0);
  CHECK(1 / (255 * pixel.scale) == doctest::Approx(0.3530).epsilon(0.001));
  CHECK(-pixel.shift / (255 * pixel.scale) == doctest::Approx(0.2860).epsilon(0.001));
  CHECK(split.held_out.pixel_scales.at(0).scale == pixel.scale);
}

TEST_CASE("standardize = false leaves images between 0 and 1") {
  DatasetOptions options;
  options.standardize = false;
  options.samples = 10;
  const DataSplit split = load(options);
  std::vector<float> inputs(784 * 10);
  std::vector<std::int32_t> labels(10);
  split.train.gather(std::array<std::uint32_t, 10>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, inputs, labels);
  CHECK(*std::min_element(inputs.begin(), inputs.end()) == 0.0f);
  CHECK(*std::max_element(inputs.begin(), inputs.end()) == doctest::Approx(1.0));
}

TEST_CASE("samples limits the training part only") {
  DatasetOptions options;
  options.samples = 500;
  const DataSplit split = load(options);
  CHECK(split.train.size() == 500);
  CHECK(std::get<std::vector<std::uint8_t>>(split.train.features).size() == 500 * 784);
  CHECK(split.held_out.size() == 10'000);
}

// A sorted file is no fair sample of itself.
TEST_CASE("samples are drawn by the seed in every format, with and without a second file") {
  const TempDirectory directory;
  std::string csv = "x,y\n", svm;
  std::vector<double> npy;
  for (int i = 0; i < 200; ++i) {
    const int label = i < 100 ? 0 : 1;
    csv += std::to_string(i) + (label == 0 ? ",no\n" : ",yes\n");
    svm += std::to_string(label) + " 1:" + std::to_string(i) + ".5\n";
    npy.insert(npy.end(), {i + 0.5, double(label)});
  }
  const std::string array = rubato::train::npy("<f8", "(200, 2)", npy);
  const std::vector<std::string> files = {
      directory.write("a.csv", csv), directory.write_gzip("a.csv.gz", csv),
      directory.write("a.svm", svm), directory.write("a.txt", svm),
      directory.write("a.npy", array)};
  for (const std::string& path : files)
    for (const bool second : {false, true})
      for (const int samples : {20, 60}) {
        CAPTURE(path);
        CAPTURE(second);
        DatasetOptions options;
        options.kind = "";
        options.path = path;
        options.samples = samples;
        options.held_out = second ? 0 : 0.2;
        if (second) options.held_out_path = path;
        const DataSplit split = load(options);
        CHECK(split.train.size() == static_cast<std::size_t>(samples));
        const auto ones = std::ranges::count(split.train.labels, 1);
        CHECK(ones > samples / 5);
        CHECK(ones < samples - samples / 5);
        CHECK(floats(load(options).train) == floats(split.train));
        CHECK(floats(load(options, 2).train) != floats(split.train));
        CHECK(split.schema.class_samples.at(1) == static_cast<std::uint64_t>(ones));
      }
}

TEST_CASE("gather copies the samples asked for, in that order") {
  rubato::train::Dataset dataset;
  dataset.shape = {2, 1, 1};
  dataset.classes = 3;
  dataset.labels = {0, 1, 2};
  dataset.features = std::vector<std::uint8_t>{0, 255, 51, 102, 10, 20};
  dataset.pixel_scales = {{}, {}};
  std::array<float, 4> inputs{};
  std::array<std::int32_t, 2> labels{};
  dataset.gather(std::array<std::uint32_t, 2>{1, 0}, inputs, labels);
  CHECK(inputs[0] == doctest::Approx(0.2));
  CHECK(inputs[1] == doctest::Approx(0.4));
  CHECK(inputs[2] == 0.0f);
  CHECK(inputs[3] == 1.0f);
  CHECK(labels == std::array<std::int32_t, 2>{1, 0});
  dataset.features = std::vector<float>{1, 2, 3, 4, 5, 6};
  dataset.gather(std::array<std::uint32_t, 2>{2, 0}, inputs, labels);
  CHECK(inputs == std::array<float, 4>{5, 6, 1, 2});
}

TEST_CASE("a table is split by the seed: disjoint, together all, same seed same split") {
  const TempDirectory directory;
  DatasetOptions options;
  options.kind = "csv";
  options.path = directory.write("a.csv", ten_rows());
  options.standardize = false;
  options.held_out = 0.3;
  const DataSplit split = load(options, 4);
  CHECK(split.train.size() == 7);
  CHECK(split.held_out.size() == 3);
  CHECK(split.train.classes == 2);
  std::set<int> seen;
  for (const auto* part : {&split.train, &split.held_out})
    for (std::size_t i = 0; i < part->size(); ++i) {
      const int row = static_cast<int>(floats(*part)[2 * i]);
      CHECK(seen.insert(row).second);
      CHECK(part->labels[i] == row % 2);  // even < odd
    }
  CHECK(seen.size() == 10);
  CHECK(floats(load(options, 4).train) == floats(split.train));
  CHECK(floats(load(options, 5).train) != floats(split.train));
}

TEST_CASE("without a kind the name of the path tells it") {
  const TempDirectory directory;
  DatasetOptions options;
  options.kind.clear();
  options.path = directory.write("a.csv", ten_rows());
  CHECK(load(options).train.size() == 8);
  options.path = directory.write("a.libsvm", "-1 1:1\n+1 1:2\n-1 1:3\n+1 1:4\n+1 2:5\n");
  CHECK(load(options).train.size() == 4);
  options.path = directory.write("a.xlsx", "PK\x03\x04");
  CHECK(error_of(options).find("save the table as CSV") != std::string::npos);
  options.path.clear();
  CHECK(error_of(options).find("dataset.path") != std::string::npos);
}

TEST_CASE("features are standardised with the training part's statistics") {
  const TempDirectory directory;
  DatasetOptions options;
  options.kind = "csv";
  options.path = directory.write("a.csv", "0,7,x\n2,7,y\n");
  options.held_out_path = directory.write("b.csv", "5,8,y\n");
  const DataSplit split = load(options);
  CHECK(floats(split.train) == std::vector<float>{-1, 0, 1, 0});
  CHECK(floats(split.held_out) == std::vector<float>{4, 1});  // a constant feature is only shifted
  options.standardize = false;
  CHECK(floats(load(options).held_out) == std::vector<float>{5, 8});
}

TEST_CASE("LIBSVM labels -1 and +1 become 0 and 1, the second file is the held-out part") {
  const TempDirectory directory;
  DatasetOptions options;
  options.kind = "libsvm";
  options.path = directory.write("train.svm", "+1 1:1\n-1 3:2\n");
  options.held_out_path = directory.write("test.svm", "-1 2:1\n");
  options.standardize = false;
  const DataSplit split = load(options);
  CHECK(split.train.labels == std::vector<std::int32_t>{1, 0});
  CHECK(split.train.shape == Shape{3, 1, 1});
  CHECK(floats(split.held_out) == std::vector<float>{0, 1, 0});
  CHECK(split.held_out.labels == std::vector<std::int32_t>{0});
}

TEST_CASE("tables that contradict the options or each other are refused") {
  const TempDirectory directory;
  DatasetOptions options;
  options.kind = "libsvm";
  options.path = directory.write("train.svm", "1 1:1\n2 2:1\n3 1:1\n");
  SUBCASE("no path") {
    options.path = "";
    CHECK(error_of(options) == "dataset.path: a libsvm dataset needs the path of a file");
  }
  SUBCASE("a missing file") {
    options.held_out_path = "/nowhere.svm";
    CHECK(error_of(options) ==
          "dataset.held_out_path = /nowhere.svm: No such file or directory; paths are relative to "
          "the cluster file");
  }
  SUBCASE("too many classes") {
    options.classes = 2;
    CHECK(error_of(options) ==
          options.path + ": the data have 3 classes, more than dataset.classes = 2");
  }
  SUBCASE("a held-out index beyond the training features") {
    options.held_out_path = directory.write("test.svm", "1 3:1\n");
    CHECK(error_of(options) == options.held_out_path +
                                   ":1: index 3 is beyond the 2 features of the model; remove it, "
                                   "or train with dataset.features = 3 or more");
  }
  SUBCASE("a held-out label that training never saw") {
    options.held_out_path = directory.write("test.svm", "4 1:1\n");
    CHECK(error_of(options) ==
          options.held_out_path + ":1: label \"4\" is none of the 3 classes; valid: 1, 2, 3");
  }
  SUBCASE("another number of columns") {
    options.kind = "csv";
    options.path = directory.write("a.csv", "1,2,x\n");
    options.features = 3;
    CHECK(error_of(options) ==
          options.path + ": the data give the model 2 inputs, not dataset.features = 3");
  }
  SUBCASE("nothing left to train on") {
    options.held_out = 0.9;
    CHECK(error_of(options) == "dataset.held_out = 0.9: leaves no training samples; lower it");
  }
  SUBCASE("unknown kind") {
    options.kind = "imagenet";
    CHECK(error_of(options).starts_with("dataset.kind = \"imagenet\": must be one of"));
  }
}

TEST_CASE("blobs: balanced classes around centres of the seed, as wide as asked") {
  DatasetOptions options;
  options.kind = "blobs";
  options.samples = 1000;
  options.features = 4;
  options.classes = 5;
  options.spread = 0.5;
  const DataSplit split = load(options);
  CHECK(split.train.size() == 800);
  CHECK(split.held_out.size() == 200);
  CHECK(split.train.shape == Shape{4, 1, 1});
  std::vector<double> sum(5), squares(5), count(5);  // of feature 0
  for (const auto* part : {&split.train, &split.held_out})
    for (std::size_t i = 0; i < part->size(); ++i) {
      const auto c = static_cast<std::size_t>(part->labels[i]);
      const double x = floats(*part)[4 * i];
      sum[c] += x;
      squares[c] += x * x;
      count[c] += 1;
    }
  for (std::size_t c = 0; c < 5; ++c) {
    CHECK(count[c] == 200);
    const double mean = sum[c] / count[c];
    CHECK(std::sqrt(squares[c] / count[c] - mean * mean) == doctest::Approx(0.5).epsilon(0.15));
  }
  CHECK(floats(load(options, 1).train) == floats(split.train));
  CHECK(floats(load(options, 2).train) != floats(split.train));
}

TEST_CASE("blobs that do not fit into memory are refused before any is made") {
  DatasetOptions options;
  options.kind = "blobs";
  options.samples = 1'000'000'000;
  CHECK(error_of(options) ==
        "dataset.samples: 1000000000 samples of 20 features do not fit into memory (limit "
        "1073741824 values); lower one of them");
  options.samples = 10;
  options.features = 100'000;
  options.classes = 20'000;
  CHECK(error_of(options) ==
        "dataset.classes: 20000 classes of 100000 features do not fit into memory (limit "
        "1073741824 values); lower one of them");
}

TEST_CASE("what is known of the data before it is read agrees with the data") {
  DatasetOptions options;
  options.kind = "blobs";
  options.samples = 100;
  const auto facts = known_facts(options);
  REQUIRE(facts.has_value());
  const DataSplit split = load(options);
  CHECK(facts->shape == split.train.shape);
  CHECK(facts->classes == split.train.classes);
  options.kind = "cifar-10";
  CHECK(known_facts(options)->shape == Shape{3, 32, 32});
  options.kind = "csv";
  CHECK_FALSE(known_facts(options).has_value());
  options.features = 8;
  options.classes = 2;
  CHECK(known_facts(options)->shape == Shape{8, 1, 1});
}

TEST_CASE("missing values become the mean of the training part, categories inputs of their own") {
  const TempDirectory directory;
  DatasetOptions options;
  options.kind = "csv";
  options.path = directory.write("a.csv", "x,c,id,y\n1,u,7,p\n,v,8,q\n3,u,9,p\n");
  options.held_out_path = directory.write("b.csv", "y,x,c\nq,,v\n");
  options.ignore = {"id"};
  DataSplit split = load(options);
  CHECK(floats(split.train) == std::vector<float>{-1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0});
  CHECK(floats(split.held_out) == std::vector<float>{0, 1, 0, 1});
  options.standardize = false;
  split = load(options);
  CHECK(floats(split.train)[4] == 2);
  CHECK(split.schema.columns[0].fill == 2);
}

TEST_CASE("a stated schema is what the data are read by") {
  const TempDirectory directory;
  DatasetOptions options;
  options.kind = "csv";
  options.path = directory.write("a.csv", "x,y\n10,q\n20,p\n");
  options.held_out = 0;
  rubato::train::InputSchema schema{
      .shape = {1, 1, 1},
      .columns = {{.name = "x", .scaling = {.mean = 10, .scale = 0.5}}},
      .label = "y",
      .classes = {"p", "q", "r"}};
  options.schema = directory.write("schema.json", to_text(schema));
  const DataSplit split = load(options);
  schema.class_samples = {1, 1, 0};  // of the data
  CHECK(split.schema == schema);
  CHECK(split.train.classes == 3);
  std::vector<float> sorted = floats(split.train);
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == std::vector<float>{0, 5});
}
