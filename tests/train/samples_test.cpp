// Files as a trained model's input: the same values as in training, and what is refused.
#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/temp_directory.hpp"
#include "train/data/samples.hpp"

namespace rubato::train {
namespace {

const std::string kTable =
    "age,city,income,risk\n"
    "20,1,1000,low\n"
    "30,2,3000,high\n"
    "40,3,2000,low\n"
    "50,4,9000,high\n";

DatasetOptions csv(const std::string& path) {
  return {.kind = "csv", .path = path, .held_out_path = {}, .held_out = 0, .label_column = "risk"};
}

const std::vector<float>& values(const Dataset& data) {
  return std::get<std::vector<float>>(data.features);
}

TEST_CASE("samples: columns are found by name, whatever their order, and scaled as in training") {
  const TempDirectory directory;
  const std::string path = directory.write("train.csv", kTable);
  const auto split = load_dataset(csv(path), 1).value();
  CHECK(split.schema.columns.size() == 3);
  CHECK(split.schema.columns[2].name == "income");
  CHECK(split.schema.label == "risk");
  CHECK(split.schema.classes == std::vector<std::string>{"high", "low"});
  const std::string other =
      directory.write("other.csv", "income,risk,note,city,age\n3000,high,9,2,30\n");
  const auto samples = read_samples(split.schema, other, Labels::Needed);
  REQUIRE_MESSAGE(samples.has_value(), (samples ? "" : samples.error().message));
  CHECK(samples->data.labels == std::vector<std::int32_t>{0});
  bool among_them = false;  // training shuffles
  for (std::size_t row = 0; row < 4; ++row)
    among_them |= std::equal(values(samples->data).begin(), values(samples->data).end(),
                             values(split.train).begin() + static_cast<std::ptrdiff_t>(3 * row));
  CHECK(among_them);
}

TEST_CASE("samples: labels are needed only where they are asked for") {
  const TempDirectory directory;
  const auto split = load_dataset(csv(directory.write("train.csv", kTable)), 1).value();
  const std::string path = directory.write("new.csv", "age,city,income\n25,1,1500\n");
  const auto samples = read_samples(split.schema, path, Labels::IfThere).value();
  CHECK(samples.data.size() == 1);
  const auto refused = read_samples(split.schema, path, Labels::Needed);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message ==
        path +
            ": has no column \"risk\" with the labels; add it, or name theirs in "
            "dataset.label_column");
}

TEST_CASE("samples: a file of names alone has nothing to predict, and is no error") {
  const TempDirectory directory;
  const auto split = load_dataset(csv(directory.write("train.csv", kTable)), 1).value();
  for (const std::string names :
       {"age,city,income\n", "age,city,income", "income,age,city,note\n",
        "age,city,income,risk\r\n",
        "\xEF\xBB\xBF"
        "age,city,income\n",
        "age;city;income\n", "age\tcity\tincome\n", "\"age\",\"city\",\"income\"\n\n\n"}) {
    CAPTURE(names);
    const std::string path = directory.write("new.csv", names);
    const auto samples = read_samples(split.schema, path, Labels::IfThere);
    REQUIRE_MESSAGE(samples.has_value(), (samples ? "" : samples.error().message));
    CHECK(samples->data.size() == 0);
    CHECK_FALSE(read_samples(split.schema, path, Labels::Needed).has_value());
  }
  const std::string labels = directory.write("new.csv", "age,city,income,risk\n");
  CHECK(read_samples(split.schema, labels, Labels::Needed).error().message ==
        labels + ": holds no samples");
  // Neither is a file in which all is wrong, nor an empty one.
  for (const char* text : {"", "\n", "age,city,income\nx,1,2\n"})
    CHECK_FALSE(
        read_samples(split.schema, directory.write("new.csv", text), Labels::IfThere).has_value());
}

TEST_CASE("samples: the label's column is named anew by name or index, whatever it is called") {
  const TempDirectory directory;
  const auto split = load_dataset(csv(directory.write("train.csv", kTable)), 1).value();
  const std::string path =
      directory.write("new.csv", "age,city,income,danger\n25,1,1500,low\n26,0,1600,high\n");
  for (const std::string column : {"danger", "3"}) {
    const Samples samples =
        read_samples(split.schema, path, Labels::Needed, {.kind = "", .label_column = column})
            .value();
    CHECK(samples.data.labels.size() == 2);
    CHECK(samples.data.labels[0] != samples.data.labels[1]);
  }
  CHECK(read_samples(split.schema, path, Labels::Needed, {.kind = "", .label_column = "4"})
            .error()
            .message ==
        path + ":1: no column \"4\" for the label; valid: age, city, income, danger");
}

TEST_CASE("samples: to predict, labels are not looked at, and a column of names stays as it is") {
  const TempDirectory directory;
  const auto split = load_dataset(csv(directory.write("train.csv", kTable)), 1).value();
  std::string text = "age,city,income,risk\n";
  const std::vector<std::string> names = {"NA", "?", "nan", "", "a new one", "low"};
  for (const std::string& name : names) text += "25,1,1500," + name + "\n";
  const Samples samples = read_samples(split.schema, directory.write("new.csv", text),
                                       Labels::IfThere, {.kind = "", .id_column = "risk"})
                              .value();
  CHECK(samples.ids == names);
}

TEST_CASE("samples: weights that are all 0 measure nothing") {
  const TempDirectory directory;
  DatasetOptions options = csv(directory.write("train.csv", "x,w,risk\n1,1,a\n2,2,b\n3,1,a\n"));
  options.weight_column = "w";
  options.held_out = 0;
  const auto split = load_dataset(options, 1).value();
  const std::string path = directory.write("new.csv", "x,w,risk\n1,0,a\n2,0,b\n");
  CHECK(read_samples(split.schema, path, Labels::Needed).error().message ==
        path +
            ": all weights in \"w\" are 0, so no sample counts; mend them, or remove the column");
  CHECK(read_samples(split.schema, path, Labels::IfThere).has_value());
}

TEST_CASE("samples: what a file lacks or has wrong is one line with column and line") {
  const TempDirectory directory;
  const auto split = load_dataset(csv(directory.write("train.csv", kTable)), 1).value();
  const auto refusal = [&](const std::string& text) {
    const auto read = read_samples(split.schema, directory.write("x.csv", text), Labels::IfThere);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == ErrorCode::BadInput);
    return read.error().message.substr(directory.path("x.csv").size());
  };
  CHECK(refusal("age,citi,income\n1,2,3\n") ==
        ":1: no column \"city\", which the model needs; did you mean citi?");
  CHECK(refusal("age,city,income\n1,2,3\n1,two,3\n") ==
        ":3: column \"city\": \"two\" is not a number");
  CHECK(refusal("age,city,income\n1,2\n") == ":2: 2 fields; the first line has 3");
  CHECK(read_samples(split.schema, directory.write("x.csv", "age,city,income,risk\n1,2,3,middle\n"),
                     Labels::Needed)
            .error()
            .message == directory.path("x.csv") +
                            ":2: label \"middle\" is none of the 2 classes; valid: high, low");
}

TEST_CASE("samples: images are scaled as in training") {
  DatasetOptions images;
  images.samples = 100;
  const auto split = load_dataset(images, 1).value();
  CHECK(split.schema.pixels);
  CHECK(split.schema.classes[9] == "Ankle boot");
  const auto samples =
      read_samples(split.schema, "/usr/share/datasets/fashion-mnist", Labels::Needed).value();
  CHECK(samples.data.size() == 10'000);
  CHECK(samples.data.pixel_scales[0].scale == split.held_out.pixel_scales[0].scale);
  CHECK(samples.data.pixel_scales[0].shift == split.held_out.pixel_scales[0].shift);
}

}  // namespace
}  // namespace rubato::train
