// dataset.missing: the marks for missing values that a user states stay with the schema, so that a
// trained model and a run that starts from it know them.
#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/temp_directory.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::train::missing_marks_tests {
namespace {

using Words = std::vector<std::string>;

DatasetOptions marked(const Words& marks) {
  DatasetOptions options;
  options.kind = "";
  options.text.missing = marks;
  return options;
}

const std::string kTable = "age,city,risk\n1,Rome,a\n-,Bern,b\n3,none,a\n";

InputSchema schema_of_table(const TempDirectory& directory) {
  const DatasetOptions options = marked({"-", "none"});
  return agree(summarise(directory.write("a.csv", kTable), options).value(), options).value();
}

TEST_CASE("missing marks: a schema keeps those that were stated") {
  const TempDirectory directory;
  const InputSchema schema = schema_of_table(directory);
  CHECK(schema.missing == Words{"-", "none"});
  CHECK(schema.columns.at(0).indicator);
  CHECK(schema.columns.at(1).categories == Words{"Bern", "Rome"});
  CHECK(rubato::train::schema_of(to_text(schema)).value() == schema);
  DatasetOptions options = marked({"-", "none"});
  options.path = directory.path("a.csv");
  CHECK(load_dataset(options, 1).value().schema.missing == Words{"-", "none"});
}

TEST_CASE("missing marks: a model knows them, and a user may add others") {
  const TempDirectory directory;
  const InputSchema schema = schema_of_table(directory);
  const std::string path = directory.write("b.csv", "age,city\n-,none\n?,-\n");
  const auto inputs = [&](const std::string& file, const DatasetOptions& options) {
    const Samples samples = read_samples(schema, file, Labels::IfThere, options).value();
    CHECK(samples.unknown == 0);
    return std::get<std::vector<float>>(samples.data.features);
  };
  // Age and its indicator; Bern, Rome and the indicator.
  const std::vector<float> gaps = {0, 1, 0, 0, 1, 0, 1, 0, 0, 1};
  CHECK(inputs(path, marked({})) == gaps);
  CHECK(inputs(directory.write("c.csv", "age,city\n-,gone\ngone,none\n"), marked({"gone"})) ==
        gaps);
  // A mark stands for a missing label, too.
  const auto refused = read_samples(schema, directory.write("d.csv", "age,city,risk\n1,Rome,-\n"),
                                    Labels::Needed, marked({}));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("d.csv:2: column \"risk\": no value") != std::string::npos);
}

TEST_CASE("missing marks: boxes read by the schema that all agreed on") {
  const TempDirectory directory;
  const InputSchema schema = schema_of_table(directory);
  const DataSplit box = load_local(directory.path("a.csv"), schema, marked({}), 0, 1).value();
  CHECK(box.train.size() == 3);
}

}  // namespace
}  // namespace rubato::train::missing_marks_tests
