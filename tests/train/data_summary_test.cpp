// Summaries of boxes' data and the schema that follows: closed forms, any partition of rows over
// boxes against the union, and what is refused.
#include "train/model/data_summary.hpp"
#include "train/data/summarise.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>
#include <rapidcheck.h>
#include <numeric>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/temp_directory.hpp"
#include "train/data/samples.hpp"

namespace rubato::train {
namespace {

using Names = std::vector<std::string>;

// Options of a file whose format follows from its name.
DatasetOptions any_file() {
  DatasetOptions options;
  options.kind = "";
  return options;
}

DataSummary summary_of_text(const std::string& text, const DatasetOptions& options = any_file(),
                            const std::string& name = "a.csv") {
  const TempDirectory directory;
  const auto summary = summarise(directory.write(name, text), options);
  REQUIRE_MESSAGE(summary.has_value(), (summary ? "" : summary.error().message));
  return *summary;
}

std::string merge_error(const std::map<std::string, DataSummary>& boxes) {
  const auto merged = merge(boxes);
  REQUIRE_FALSE(merged.has_value());
  CHECK(merged.error().code == ErrorCode::BadInput);
  return merged.error().message;
}

const std::vector<float>& values(const Dataset& data) {
  return std::get<std::vector<float>>(data.features);
}

std::string text_of_all(const Dataset& data, const InputSchema& schema) {
  std::vector<std::uint32_t> all(data.size());
  std::iota(all.begin(), all.end(), 0u);
  return samples_text(data, all, schema);
}

TEST_CASE("a summary has the closed-form moments of 1 to n, and counts what is missing") {
  std::string text = "x,colour,y\n";
  for (int i = 1; i <= 100; ++i)
    text += fmt::format("{},{},{}\n", i, i % 2 ? "red" : "blue", i % 4);
  text += ",NA,0\n";
  const DataSummary summary = summary_of_text(text);
  CHECK(summary.samples == 101);
  CHECK(summary.label == "y");
  CHECK(summary.columns[0].name == "x");
  CHECK(summary.columns[0].missing == 1);
  CHECK(summary.columns[0].values.count == 100);
  CHECK(summary.columns[0].values.mean == 50.5);
  CHECK(summary.columns[0].values.m2 == doctest::Approx(100 * (100 * 100 - 1) / 12.0));
  CHECK(summary.columns[1].categories == Names{"blue", "red"});
  CHECK(summary.columns[1].missing == 1);
  CHECK(summary.classes ==
        std::map<std::string, std::uint64_t>{{"0", 26}, {"1", 25}, {"2", 25}, {"3", 25}});
}

TEST_CASE("the schema: kinds, sorted categories and classes, indicators, mean and scale") {
  const InputSchema schema =
      agree(summary_of_text("a,b,y\n1,u,10\n3,,9\n,t,10\n"), any_file()).value();
  CHECK(schema.shape == Shape{5, 1, 1});
  REQUIRE(schema.columns.size() == 2);
  CHECK(schema.columns[0] ==
        Column{.name = "a", .indicator = true, .fill = 2, .scaling = {.mean = 2, .scale = 1}});
  CHECK(schema.columns[1].categories == Names{"t", "u"});
  CHECK(schema.columns[1].indicator);
  CHECK(schema.classes == Names{"9", "10"});
  CHECK(schema.class_samples == std::vector<std::uint64_t>{1, 2});
  CHECK(schema_of(to_text(schema)).value() == schema);
}

TEST_CASE("samples become inputs: scaled numbers, one input a category, indicators") {
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", "a,b,y\n1,u,10\n3,,9\n,t,10\n");
  const InputSchema schema = agree(summarise(path, any_file()).value(), any_file()).value();
  const DataSplit split = load_local(path, schema, any_file(), 0, 1).value();
  CHECK(values(split.train) == std::vector<float>{-1, 0, 0, 1, 0,  //
                                                  1, 0, 0, 0, 1,   //
                                                  0, 1, 1, 0, 0});
  CHECK(split.train.labels == std::vector<std::int32_t>{1, 0, 1});
  CHECK(split.held_out.size() == 0);
  CHECK(text_of_all(split.train, schema) == "trains on 3 samples of 2 classes: 9 1, 10 2");
}

TEST_CASE("property: any partition of rows over boxes gives the schema of the union") {
  rc::check([] {
    const auto rows = *rc::gen::inRange(1, 60);
    const auto boxes = *rc::gen::inRange(1, 6);
    const double centre = *rc::gen::element(0.0, 1e3, -1e6);
    const std::string header = "x,z,colour,y\n";
    std::string all = header;
    std::map<std::string, std::string> parts;
    for (int i = 0; i < rows; ++i) {
      const auto x = *rc::gen::inRange(-1000, 1000);
      const std::string line = fmt::format(
          "{},{},{},{}\n", centre + x / 7.0, *rc::gen::element<std::string>("", "1", "2.5", "NaN"),
          *rc::gen::element<std::string>("red", "green", "blue", "?"),
          *rc::gen::element<std::string>("2", "10", "-1"));
      all += line;
      const std::string box = fmt::format("box {}", *rc::gen::inRange(0, boxes));
      parts.try_emplace(box, header).first->second += line;
    }
    std::map<std::string, DataSummary> summaries;
    for (const auto& [box, text] : parts) {
      DatasetOptions options = any_file();
      options.label_column = "y";
      const DataSummary summary = summary_of_text(text, options);
      RC_ASSERT(summary_of(to_text(summary)).value() == summary);
      summaries[box] = summary;
    }
    DatasetOptions options = any_file();
    options.label_column = "y";
    const DataSummary whole = summary_of_text(all, options);
    const DataSummary merged_all = merge(summaries).value();
    RC_ASSERT(merged_all.samples == whole.samples);
    RC_ASSERT(merged_all.classes == whole.classes);
    const InputSchema expected = agree(whole, any_file()).value();
    const InputSchema agreed = agree(merged_all, any_file()).value();
    RC_ASSERT(agreed.shape == expected.shape);
    RC_ASSERT(agreed.classes == expected.classes);
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); };
    for (std::size_t c = 0; c < 3; ++c) {
      const Column &is = agreed.columns[c], &wanted = expected.columns[c];
      RC_ASSERT(is.categories == wanted.categories);
      RC_ASSERT(is.indicator == wanted.indicator);
      // The mean may be near zero: its error is relative to the largest value.
      RC_ASSERT(std::abs(is.fill - wanted.fill) <= 1e-12 * (std::abs(centre) + 143));
      // A spread of one value is rounding alone.
      RC_ASSERT(near(is.scaling.scale, wanted.scaling.scale) || whole.columns[c].values.m2 < 1e-9);
    }
  });
}

TEST_CASE("a column that one box has and others lack can be ignored, a name that none has not") {
  DatasetOptions options = any_file();
  options.ignore = {"memo", "note", "id"};
  const TempDirectory directory;
  const auto summary = [&](const std::string& text) {
    return summary_of(to_text(summarise(directory.write("b.csv", text), options).value())).value();
  };
  std::map<std::string, DataSummary> boxes = {{"pi", summary("x,note,y\n1,hot,p\n")},
                                              {"zero", summary("id,x,y\n7,3,q\n")}};
  CHECK(agree(boxes, options).error().message == "no column \"memo\" for dataset.ignore; valid: x");
  boxes["phone"] = summary("x,memo,y\n2,,q\n");
  const InputSchema schema = agree(boxes, options).value();
  REQUIRE(schema.columns.size() == 1);
  CHECK(schema.columns[0].name == "x");
  CHECK(schema.columns[0].scaling.mean == doctest::Approx(2));
}

TEST_CASE("merging refuses what differs, and names column and box") {
  const DataSummary a = summary_of_text("x,y\n1,p\n");
  CHECK(
      merge_error({{"pi", a}, {"zero", summary_of_text("x,y\nred,p\nred,q\n")}}) ==
      "column \"x\" holds texts such as \"red\" on box zero and numbers on box pi; mend one of the "
      "files, or list the column in dataset.categorical");
  CHECK(merge_error({{"pi", a}, {"zero", summary_of_text("xx,y\n1,p\n")}}) ==
        "box zero has no column \"x\", which box pi has; did you mean xx?");
  CHECK(merge_error({{"pi", a}, {"zero", summary_of_text("x,w,y\n1,2,p\n")}}) ==
        "box zero has a column \"w\", which box pi lacks; list it in dataset.ignore");
  CHECK(merge_error({{"pi", a}, {"zero", summary_of_text("weight,y\n1,p\n")}}) ==
        "box zero has no column \"x\", which box pi has; add it there, or list it in "
        "dataset.ignore");
  CHECK(merge_error({{"pi", a}, {"zero", summary_of_text("x,z\n1,p\n")}}) ==
        "the label is column \"y\" on box pi and \"z\" on box zero; set dataset.label_column, or "
        "mend "
        "one of the files");
  DatasetOptions number = any_file();
  number.label_column = "1";
  CHECK(merge_error({{"pi", summary_of_text("1,3,2\n1,1,1\n", number)},
                     {"zero", summary_of_text("1,2\n1,1\n", number)}}) ==
        "box pi has 2 columns, box zero has 1; without a header line all need the same");
}

TEST_CASE("boxes may have their columns in different orders") {
  DatasetOptions options = any_file();
  options.label_column = "y";
  const auto all = merge({{"a", summary_of_text("x,z,y\n1,10,p\n", options)},
                          {"b", summary_of_text("y,z,x\nq,20,3\n", options)}})
                       .value();
  CHECK(all.columns[0].values.mean == 2);
  CHECK(all.columns[1].values.mean == 15);
}

TEST_CASE("LIBSVM: columns that a box never uses are zeros there") {
  const auto all = merge({{"a", summary_of_text("1 1:2\n-1 1:4\n", any_file(), "a.svm")},
                          {"b", summary_of_text("1 1:3 2:6\n", any_file(), "b.svm")}})
                       .value();
  REQUIRE(all.columns.size() == 2);
  CHECK(all.columns[0].values.mean == 3);
  CHECK(all.columns[1].values.count == 3);
  CHECK(all.columns[1].values.mean == 2);
  CHECK(all.columns[1].values.m2 == 24);
  CHECK(agree(all, any_file()).value().classes == Names{"-1", "1"});
}

TEST_CASE("what is stated wins over what the data have") {
  const DataSummary summary = summary_of_text("x,y\n1,p\n3,q\n");
  DatasetOptions stated = any_file();
  stated.class_names = {"q", "r", "p"};
  stated.standardize = false;
  const InputSchema schema = agree(summary, stated).value();
  CHECK(schema.classes == stated.class_names);
  CHECK(schema.columns[0].scaling == Scaling{});
  CHECK(schema.columns[0].fill == 2);
  stated.class_names = {"q", "pp"};
  CHECK(agree(summary, stated).error().message ==
        "class \"p\" is in the data, but not in dataset.class_names; did you mean pp?");
}

TEST_CASE("a stated schema is read from its file") {
  const TempDirectory directory;
  const InputSchema schema = agree(summary_of_text("x,y\n1,p\n3,q\n"), any_file()).value();
  DatasetOptions stated = any_file();
  stated.schema = directory.write("schema.json", to_text(schema));
  CHECK(stated_schema(stated).value() == schema);
  stated.schema = directory.write("schema.json", "{}");
  CHECK(stated_schema(stated).error().message.starts_with(stated.schema + ": is an input schema"));
  stated.schema = "/nowhere";
  CHECK(stated_schema(stated).error().message ==
        "dataset.schema = /nowhere: No such file or directory");
}

TEST_CASE("a file that contradicts the agreed schema is refused in one line") {
  const TempDirectory directory;
  const InputSchema schema =
      agree(summary_of_text("age,city,risk\n20,Rome,low\n30,Oslo,high\n"), any_file()).value();
  const auto refusal = [&](const std::string& text) {
    const std::string path = directory.write("b.csv", text);
    const auto split = load_local(path, schema, any_file(), 0, 1);
    REQUIRE_FALSE(split.has_value());
    CHECK(split.error().code == ErrorCode::BadInput);
    return split.error().message.substr(path.size());
  };
  CHECK(refusal("age,city,risk\n20,Rome,low\n30,Roma,high\n") ==
        ":3: column \"city\": \"Roma\" is not one of the 2 agreed categories (did you mean Rome?); "
        "mend the line, or begin a new run whose training data have the category");
  CHECK(refusal("age,city,risk\nold,Rome,low\n") == ":2: column \"age\": \"old\" is not a number");
  CHECK(refusal("age,city,risk\n20,Rome,none\n") ==
        ":2: label \"none\" is none of the 2 classes; valid: high, low");
  CHECK(refusal("age,town,risk\n20,Rome,low\n") ==
        ":1: no column \"city\", which the model needs; valid: age, town, risk");
  CHECK(refusal("age,city\n20,Rome\n") ==
        ": has no column \"risk\" with the labels; add it, or name theirs in dataset.label_column");
  // One class, another order and a value missing are no contradiction.
  const std::string path = directory.write("c.csv", "risk,age,city\nlow,,Oslo\n");
  const DataSplit split = load_local(path, schema, any_file(), 0, 1).value();
  CHECK(values(split.train) == std::vector<float>{0, 1, 0});
  CHECK(text_of_all(split.train, schema) == "trains on 1 samples of 1 class: low 1");
}

TEST_CASE("to predict, an unknown category counts as none, and is counted") {
  const TempDirectory directory;
  const InputSchema schema =
      agree(summary_of_text("age,city,risk\n20,Rome,low\n30,Oslo,high\n"), any_file()).value();
  const std::string path = directory.write("new.csv", "age,city\n30,Paris\n20,Rome\n");
  const Samples samples = read_samples(schema, path, Labels::IfThere).value();
  CHECK(samples.unknown == 1);
  CHECK(values(samples.data) == std::vector<float>{1, 0, 0, -1, 0, 1});
}

TEST_CASE("each box holds out a share of its own, chosen by the seed") {
  const TempDirectory directory;
  std::string text = "x,y\n";
  for (int i = 0; i < 50; ++i) text += fmt::format("{},{}\n", i, i % 2);
  const std::string path = directory.write("a.csv", text);
  const InputSchema schema = agree(summarise(path, any_file()).value(), any_file()).value();
  const DataSplit one = load_local(path, schema, any_file(), 0.2, 1).value();
  CHECK(one.train.size() == 40);
  CHECK(one.held_out.size() == 10);
  CHECK(values(one.held_out) ==
        values(load_local(path, schema, any_file(), 0.2, 1).value().held_out));
  CHECK(values(one.held_out) !=
        values(load_local(path, schema, any_file(), 0.2, 2).value().held_out));
  CHECK(load_local(path, schema, any_file(), 1, 1).error().message ==
        path +
            ": 50 samples, of which a share of 1 is held out, leave none to train on; lower "
            "dataset.held_out");
}

TEST_CASE("a summary from a stranger is checked before it is believed") {
  const std::string good = to_text(summary_of_text("x,c,y\n1,u,p\n3,v,q\n"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto summary = summary_of(text);
    return summary ? "accepted" : summary.error().message;
  };
  CHECK(changed("\"samples\":2", "\"samples\":2") == "accepted");
  CHECK(changed("\"samples\":2", "\"samples\":3").find("other labels than samples") !=
        std::string::npos);
  CHECK(changed("[2,2.0,2.0]", "[2,2.0,-2.0]") ==
        "a data summary that column \"x\" contradicts itself");
  CHECK(changed("[2,2.0,2.0]", "[2,2.0]").starts_with("a data summary that cannot be read"));
  CHECK(changed("[2,2.0,2.0]", "[2,null,2.0]").starts_with("a data summary that cannot be read"));
  CHECK(changed("[\"u\",\"v\"]", "[\"v\",\"u\"]") ==
        "a data summary that column \"c\" contradicts itself");
  const std::string unread = "a data summary that cannot be read";
  for (const char* count : {"-2", "2.5", "1e300", "9007199254740993", "99999999999999999999"}) {
    CAPTURE(count);
    CHECK(changed("\"samples\":2", fmt::format("\"samples\":{}", count)).starts_with(unread));
    CHECK(changed("[2,2.0,2.0]", fmt::format("[{},2.0,2.0]", count)).starts_with(unread));
    CHECK(changed("[\"p\",1]", fmt::format("[\"p\",{}]", count)).starts_with(unread));
  }
  for (const char* moments : {"[2,1e308,2.0]", "[2,-1e308,2.0]", "[2,2.0,1e300]"})
    CHECK(changed("[2,2.0,2.0]", moments) == "a data summary that column \"x\" contradicts itself");
  // Names that people read.
  CHECK(changed("\"p\"", "\"p\\u001b[2J\"") ==
        "the class \"p?[2J\" holds U+001B, which is not shown; write it without");
  CHECK(changed("\"u\"", "\"u\\u202e\"").starts_with("the category \"u?\" holds U+202E"));
  CHECK(changed("\"x\"", "\"x\\u200b\"").starts_with("the column \"x?\" holds U+200B"));
  CHECK(changed("\"y\"", "\"y\\n\"").starts_with("the label's column \"y?\" holds U+000A"));
  CHECK(summary_of("").error().message.starts_with("a data summary that cannot be read"));
  CHECK(summary_of(std::string(kSchemaBytesMax + 1, ' ')).error().message ==
        "a data summary of 16777217 bytes; the limit is 16777216");
  std::string many = R"({"samples":1,"label":"y","sparse":false,"classes":[["a",1]],"columns":[)";
  for (std::size_t i = 0; i <= kColumnsMax; ++i)
    many += fmt::format("{}{{\"missing\":1,\"values\":[0,0.0,0.0]}}", i ? "," : "");
  CHECK(summary_of(many + "]}").error().message ==
        "a data summary that has 100001 columns, more than 100000; leave some out");
}

}  // namespace
}  // namespace rubato::train
