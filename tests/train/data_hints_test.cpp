// Which data are worth a warning, and which are not.
#include "train/data/data_hints.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/temp_directory.hpp"
#include "train/data/table_files.hpp"

namespace rubato::train {
namespace {

using Words = std::vector<std::string>;

Words numbers(int count, const char* form) {
  Words all;
  for (int i = 0; i < count; ++i) all.push_back(fmt::format(fmt::runtime(form), i));
  return all;
}

// A table of one column, whose numbers have this mean and deviation, with samples of each class.
DataSummary of_classes(const Words& classes, std::uint64_t of_each) {
  DataSummary all{.samples = of_each * classes.size(), .label = "y"};
  for (const std::string& name : classes) all.classes[name] = of_each;
  const Moments values{all.samples, 1, static_cast<double>(all.samples)};
  all.columns.push_back({.name = "x", .values = values});
  return all;
}

DataSummary of_column(const ColumnSummary& column, std::uint64_t samples) {
  DataSummary all{.samples = samples, .label = "y", .classes = {{"a", samples / 2}}};
  all.classes["b"] = samples - samples / 2;
  all.columns = {{.name = "z", .values = {samples, 0, 1}}, column};
  return all;
}

std::string hints(const DataSummary& all, const DatasetOptions& options = {}) {
  return fmt::format("{}", fmt::join(data_hints(all, options), "\n"));
}

}  // namespace

TEST_CASE("hints: labels that are numbers with fractions, or many, look like a quantity") {
  CHECK(hints(of_classes(numbers(1322, "{}"), 2)) ==
        "All 1,322 labels are numbers. If they are a quantity to predict, and no names of classes, "
        "set dataset.task = \"regression\"");
  CHECK_FALSE(hints(of_classes(numbers(30, "{}.5"), 3000)).empty());
  CHECK_FALSE(hints(of_classes(numbers(30, "{}"), 3)).empty());
  CHECK_FALSE(hints(of_classes(numbers(101, "{}"), 10'000)).empty());
  CHECK(hints(of_classes(numbers(10, "{}"), 6000)).empty());
  CHECK(hints(of_classes(numbers(20, "{}.5"), 2)).empty());
  CHECK(hints(of_classes(numbers(100, "{}"), 500)).empty());  // CIFAR-100
  CHECK(hints(of_classes(numbers(1000, "class {}"), 1)).empty());
  CHECK(hints(of_classes(numbers(30, "{},5"), 3000)).starts_with("All 30 labels are numbers."));
  CHECK_FALSE(hints(of_classes(numbers(6, "0.{}"), 1)).empty());  // each sample its own
  CHECK(hints(of_classes(numbers(5, "0.{}"), 1)).empty());
}

TEST_CASE("hints: 1 and -1 are two numbers") {
  CHECK(hints(of_classes({"-1", "1"}, 100)).empty());
}

TEST_CASE("hints: names that differ in spelling alone") {
  const auto of = [](const Words& classes) { return hints(of_classes(classes, 100)); };
  CHECK(of({"0", "1", "1.0"}) ==
        "Classes \"1\" and \"1.0\" are two, though one number. If they are meant to be one, spell "
        "them alike in all files");
  CHECK_FALSE(of({"007", "7"}).empty());
  CHECK(of({"Cat", "cat"}) ==
        "Classes \"Cat\" and \"cat\" are two. If they are meant to be one, spell them alike in all "
        "files");
  CHECK_FALSE(of({"hot dog", "hot_dog"}).empty());
  CHECK_FALSE(of({"hot dog", "hot  dog "}).empty());
  CHECK(of({"1.1", "1.2", "a"}).empty());
  CHECK(of({"1234567890123456788", "1234567890123456789"}).empty());
  const ColumnSummary city{.name = "city", .categories = {"Rome", "rome"}};
  CHECK(hints(of_column(city, 100)).starts_with("Categories of column \"city\": \"Rome\" and"));
}

TEST_CASE("hints: how many pairs of names differ in spelling alone, in all of Latin and beyond") {
  const auto of = [](const Words& classes) { return hints(of_classes(classes, 100)); };
  CHECK(
      of({"A", "B", "C", "a", "b", "c"}).find("\"A\" and \"a\" are two, and 2 more such pairs.") !=
      std::string::npos);
  for (const Words& two :
       {Words{"\u00C9cole", "\u00E9cole"}, Words{"\u0141\u00F3d\u017A", "\u0142\u00F3d\u017A"},
        Words{"\u0416", "\u0436"}, Words{"\u03A9", "\u03C9"}, Words{"\u0401", "\u0451"},
        Words{"\u017D", "\u017E"}, Words{"O'Brien", "O\u2019Brien"}})
    CHECK_MESSAGE(of({two[0], two[1], "x"}).find(" are two. If they") != std::string::npos, two[0]);
  const std::string forms = of({"caf\u00E9", "cafe\u0301", "tea"});
  CHECK(forms.find(
            " are two, of letters that look the same in other bytes (Unicode NFC and NFD). If") !=
        std::string::npos);
  CHECK_FALSE(of({"Vi\u1EC7t", "Vie\u0323\u0302t"}).empty());
  for (const Words& others :
       {Words{"caf\u00E9", "cafe"}, Words{"cafe\u0301", "cafe"}, Words{"cafe\u0301", "cafe\u0301s"},
        Words{"\u00D7", "\u00F7"}, Words{"\u00E9t\u00E9", "e\u0301ta"}, Words{"\u0141", "\u0144"}})
    CHECK_MESSAGE(of(others).empty(), others[0]);
}

TEST_CASE("hints: labels that are plain numbers are in no other spelling") {
  CHECK(hints(of_classes({"0.125", "0.250", "1.500"}, 100)).empty());
  CHECK(hints(of_classes({"0,125", "0,250", "1,500"}, 100)).empty());
  CHECK(
      hints(of_classes({"5 %", "6 %", "1.5"}, 100)).starts_with("Labels such as \"5 %\": a perc"));
}

TEST_CASE("hints: one class, rare classes") {
  CHECK(hints(of_classes({"yes"}, 10)) ==
        "All samples are of one class, \"yes\", so there is nothing to learn. See whether "
        "the label's column is the right one");
  DataSummary all = of_classes({"good", "fault"}, 5000);
  CHECK(hints(all).empty());
  all.classes = {{"good", 9900}, {"fault", 100}};
  CHECK(hints(all).empty());  // 1 in 100
  all.classes = {{"good", 9901}, {"fault", 99}};
  CHECK(hints(all).starts_with("Class \"fault\" is rare, with as few as 99 of 10,000 samples."));
  CHECK(hints(all).find("Set training.class_weights") != std::string::npos);
  DatasetOptions weighted;
  weighted.class_weights = true;  // which needs no advice
  CHECK(hints(all, weighted).starts_with("Class \"fault\" is rare"));
  CHECK(hints(all, weighted).find("class_weights") == std::string::npos);
  CHECK(hints(of_classes(numbers(200, "class {}"), 50)).empty());  // many, none rarer than others
}

TEST_CASE("hints: names that differ by what nobody sees") {
  for (const char* other : {"\u00A0cat", "cat\u200B", "\uFEFFcat", "c\u00ADat"}) {
    CAPTURE(other);
    CHECK(hints(of_classes({"cat", other, "dog"}, 50)).find(" are two.") != std::string::npos);
  }
}

TEST_CASE("hints: columns that name the samples, or hold numbers in another spelling") {
  const auto column = [](const Words& words) {
    return hints(of_column({.name = "c", .categories = words}, 100));
  };
  CHECK(column(numbers(60, "id {}"))
            .starts_with("Column \"c\": about as many categories as samples."));
  CHECK(column(numbers(30, "city {}")).empty());
  CHECK(column({"12%", "13%"}) ==
        "Column \"c\" holds texts such as \"12%\": a percentage; write it without the %");
  CHECK(column({"N/A", "red"}) ==
        "Column \"c\" holds texts such as \"N/A\": if it stands for no value, set dataset.missing "
        "= [\"N/A\"]");
  CHECK(column({"2026-11-25", "2026-11-26"}).find("a date or a time") != std::string::npos);
  CHECK(column({"S", "M", "10-12"}).empty());
  CHECK(column({"1\u202F234", "12\u202F345"}).find("digits in groups") != std::string::npos);
  CHECK(column({"1,23,456", "12,34,567"}).find("digits in groups") != std::string::npos);
  CHECK(column({"12,5", "13,5"}).find("set dataset.decimal = \",\"") != std::string::npos);
  // One odd text hides no others.
  CHECK(column({"12%", "13%", "few"}).find("a percentage") != std::string::npos);
  CHECK(column({"12%", "few", "many"}).empty());
  CHECK(column({"5cm", "12cm", "7.5cm"}) ==
        "Column \"c\" holds texts such as \"5cm\": if they are numbers with a unit, write them "
        "without \"cm\"");
  CHECK(column({"2D", "3D"}).empty());
  CHECK(column({"7a", "8b", "9c"}).empty());
  DatasetOptions stated;
  stated.categorical = {"c"};
  CHECK(hints(of_column({.name = "c", .categories = {"1,5", "2.5"}}, 100), stated).empty());
  CHECK(hints(of_classes({"NULL", "a"}, 50)).starts_with("Labels such as \"NULL\": if it stands"));
}

TEST_CASE("hints: a file without names cannot list a column, and LIBSVM counts from 1") {
  DataSummary all = of_column({.name = "", .categories = numbers(60, "id {}")}, 100);
  all.columns[0].name.clear();
  CHECK(hints(all) ==
        "Column \"1\": about as many categories as samples. Names and ids teach nothing of other "
        "samples; leave it out when you write the file");
  DataSummary sparse = of_classes({"a", "b"}, 50);
  sparse.sparse = true;
  sparse.columns[0].name.clear();
  sparse.columns[0].values = {100, 1.7e18, 100 * 300.0 * 300.0};
  CHECK(hints(sparse).starts_with("Column \"1\": the numbers differ"));
}

TEST_CASE("hints: columns without values, all the same, or with digits that no number keeps") {
  const auto number = [](double mean, double deviation, bool standardize = true) {
    DatasetOptions options;
    options.standardize = standardize;
    const Moments values{100, mean, 100 * deviation * deviation};
    return hints(of_column({.name = "t", .values = values}, 100), options);
  };
  CHECK(number(1.7e9, 20).empty());
  CHECK(number(1.7e18, 300).starts_with("Column \"t\": the numbers differ by less than"));
  CHECK(number(1.7e18, 3000).empty());
  CHECK(number(1.7e9, 20, false).find("dataset.standardize = false") != std::string::npos);
  CHECK(number(1.7, 20, false).empty());
  CHECK(hints(of_column({.name = "e", .missing = 100}, 100)) ==
        "Column \"e\": no sample has a value");
  DataSummary still = of_classes({"a", "b"}, 50);
  still.columns[0].values.m2 = 0;
  CHECK(hints(still) == "No column varies, so there is nothing to learn from");
  DataSummary same = of_classes({}, 0);
  same.samples = 3;
  same.target = Moments{3, 7, 0};
  same.columns[0].values = {3, 0, 1};
  CHECK(hints(same) == "All targets are the same number, so there is nothing to learn");
}

TEST_CASE("hints: numbers that are written as codes are") {
  const TempDirectory directory;
  const auto hints = [&](const Words& fields) {
    std::string text = "code,x,y\n";
    for (const std::string& field : fields) text += field + ",0.5,a\n3,0.1,b\n";
    return table_hints(read_csv(directory.write("a.csv", text), {}).value());
  };
  for (const std::string code : {"01067", "007", "00", "0815", "001", "0000001", "030", "09"}) {
    CAPTURE(code);
    const Words all = hints({"7", code, "8"});
    REQUIRE(all.size() == 1);
    CHECK(all[0].starts_with("Column \"code\" has numbers with zeros in front, such as \"" + code +
                             "\", as codes have"));
    CHECK(all[0].find("dataset.categorical = [\"code\"]") != std::string::npos);
  }
  for (const std::string number : {"0", "0.5", "-01", "10", "0e0", "+0", "0.01", "100"})
    CHECK(hints({"7", number}).empty());
  // Stated categories keep their zeros.
  const RawTable table =
      read_csv(directory.write("b.csv", "code,y\n01,a\n1,b\n"), {.categorical = {"code"}}).value();
  CHECK(table_hints(table).empty());
  CHECK(table.columns[0].words == Words{"01", "1"});
}

TEST_CASE("hints: a column that counts the samples, sorted by class or not") {
  RawTable table{.columns = {{.name = "id"}, {.name = "x"}}};
  for (int i = 0; i < 40; ++i) {
    table.values.push_back(1000 + i);
    table.values.push_back(std::sin(i));
    table.labels.emplace_back(i < 20 ? "a" : "b");
  }
  CHECK(table_hints(table) ==
        Words{"Column \"id\" counts the samples of the file, and these are sorted by class. If it "
              "is a number of the line, list it in dataset.ignore"});
  std::swap(table.labels[0], table.labels[39]);
  CHECK(table_hints(table) == Words{"Column \"id\" counts the samples of the file. If it is a "
                                    "number of the line, list it in dataset.ignore"});
  for (RawColumn& column : table.columns) column.name.clear();
  CHECK(
      table_hints(table) ==
      Words{"Column \"0\" counts the samples of the file. If it is a number of the line, leave it "
            "out when you write the file"});
  table.sparse = true;  // LIBSVM counts from 1
  CHECK(table_hints(table).at(0).starts_with("Column \"1\" counts"));
  table.values[4] = 1500;
  CHECK(table_hints(table).empty());
}

}  // namespace rubato::train
