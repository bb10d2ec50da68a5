// Names stay names: what texts of a file become classes and categories, which samples have no
// label, and which first line is names.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/temp_directory.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/data/table_files.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::train::names_tests {
namespace {

using Words = std::vector<std::string>;

DatasetOptions any_file() {
  DatasetOptions options;
  options.kind = "";
  options.held_out = 0;
  return options;
}

// Texts that are one number or nearly so to a program that reads them as numbers.
const std::vector<Words> kAlike = {
    {"1", "1.0", "+1", "01", "1e0"},                 // codes
    {"1.1", "1.10", "1.100"},                        // versions
    {"1E5", "100000", "1e5"},                        // article numbers
    {"007", "7", "0007"},                            // agents
    {"9007199254740992", "9007199254740993"},        // beyond the whole numbers of a double
    {"1234567890123456789", "1234567890123456788"},  // ids
    {"-0", "0", "+0", "0.0"},                        // zeros
    {"0x10", "16", "010"},                           // hexadecimal, octal
    {"inf", "Infinity", "infinity"},                 // no numbers
    {"true", "True", "1"},                           // truth
    {"1_000", "1000", "1,000"},                      // thousands
    {"A", "a", "\xC3\xA4"},                          // letters
    {"0.1", ".1", "0.10"},                           // ratios
    {"1e400", "1e401"},                              // beyond all doubles
};

TEST_CASE("names: every text of a label is a class of its own, spelled as in the file") {
  for (const Words& texts : kAlike) {
    const TempDirectory directory;
    std::string text = "x,y\n";
    for (std::size_t i = 0; i < texts.size(); ++i)
      for (int k = 0; k < 2; ++k) text += std::to_string(i) + ",\"" + texts[i] + "\"\n";
    const std::string path = directory.write("a.csv", text);
    const DataSummary summary = summarise(path, any_file()).value();
    for (const std::string& name : texts) {
      CAPTURE(name);
      CHECK(summary.classes.contains(name));
    }
    CHECK(summary.classes.size() == texts.size());
    const InputSchema schema = agree(summary, any_file()).value();
    CHECK(schema.classes.size() == texts.size());
    CHECK(schema_of(to_text(schema)).value() == schema);
    const auto split = load_local(path, schema, any_file(), 0, 1).value();
    for (std::size_t i = 0; i < split.train.size(); ++i)
      CHECK(schema.classes[static_cast<std::size_t>(split.train.labels[i])] == texts[i / 2]);
  }
}

TEST_CASE("names: every text of a categorical column is a category of its own") {
  for (const Words& texts : kAlike) {
    const TempDirectory directory;
    std::string text = "x,code,y\n";
    for (std::size_t i = 0; i < texts.size(); ++i)
      text += "1,\"" + texts[i] + "\"," + std::to_string(i % 2) + "\n";
    DatasetOptions options = any_file();
    options.categorical = {"code"};
    const std::string path = directory.write("a.csv", text);
    const InputSchema schema = agree(summarise(path, options).value(), options).value();
    Words sorted = texts;
    std::ranges::sort(sorted);
    CHECK(schema.columns[1].categories == sorted);
    // To predict, a text that differs from all of them is none of them.
    const Samples samples =
        read_samples(schema, directory.write("new.csv", "x,code\n1,1.00000\n"), Labels::IfThere)
            .value();
    CHECK(samples.unknown == 1);
  }
}

TEST_CASE("names: a class that the data lack gets a name that no other has") {
  const TempDirectory directory;
  DatasetOptions options = any_file();
  options.classes = 3;
  const DataSummary summary =
      summarise(directory.write("a.csv", "x,y\n1,class 2\n2,class 1\n"), options).value();
  CHECK(agree(summary, options).value().classes == Words{"class 1", "class 2", "class 3"});
}

TEST_CASE("names: a model of old knows numbers in its own spelling") {
  const TempDirectory directory;
  // As an older Rubato wrote it: nothing says how names are spelled.
  const InputSchema old =
      schema_of(R"({"shape":[4,1,1],"pixels":false,"label":"y","classes":["1","10"],"columns":[)"
                R"({"name":"x","fill":0.0,"scaling":[0.0,1.0]},)"
                R"({"name":"z","categories":["007","2","2.5"]}]})")
          .value();
  CHECK(old.old_names);
  CHECK(schema_of(to_text(old)).value() == old);
  const Samples samples =
      read_samples(old,
                   directory.write("a.csv", "x,z,y\n0,2.0,1.0\n0,007,+1\n0,07,1e1\n0,2.50,10\n"),
                   Labels::Needed)
          .value();
  CHECK(samples.data.labels == std::vector<std::int32_t>{0, 0, 1, 1});
  CHECK(samples.unknown == 1);  // 07
  CHECK(std::get<std::vector<float>>(samples.data.features) ==
        std::vector<float>{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
}

TEST_CASE("labels: a missing one is refused by line, or skipped and counted") {
  const TempDirectory directory;
  const auto check = [&](const std::string& name, const std::string& text,
                         const std::string& place) {
    CAPTURE(text);
    const std::string path = directory.write(name, text);
    DatasetOptions options = any_file();
    const auto refused = summarise(path, options);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message == path + place +
                                         ": no value; fill it in, or leave such samples out "
                                         "(dataset.skip_unlabelled, evaluate --skip-unlabelled)");
    options.path = path;
    CHECK(load_dataset(options, 1).error().message == refused.error().message);
    options.skip_unlabelled = true;
    const DataSummary summary = summarise(path, options).value();
    CHECK(summary.samples == 2);
    const DataSplit split = load_dataset(options, 1).value();
    CHECK(split.train.size() == 2);
    CHECK(split.left_out == std::vector{path + ": 1 sample without a label is left out"});
    const InputSchema schema = agree(summary, options).value();
    CHECK(load_local(path, schema, options, 0, 1).value().left_out == split.left_out);
    CHECK_FALSE(read_samples(schema, path, Labels::Needed).has_value());
    CHECK(read_samples(schema, path, Labels::Needed, {.kind = "", .skip_unlabelled = true})
              .value()
              .data.size() == 2);
    // Who predicts needs no labels.
    CHECK(read_samples(schema, path, Labels::IfThere).value().data.size() == 3);
  };
  for (const std::string missing : {"", "NA", "NaN", "nan", "?", "\"\""})
    check("a.csv", "x,y\n1,a\n2," + missing + "\n3,b\n", ":3: column \"y\"");
  check("b.csv", "x,y\n1,a\n2,b\n3,\n", ":4: column \"y\"");
  for (const std::string missing : {"nan", "?", "NA", ""})
    check("a.svm", "1 1:1\n" + missing + " 1:2\n2 1:3\n", ":2: the label");
}

TEST_CASE("labels: a file whose samples all lack theirs is refused, too") {
  const TempDirectory directory;
  DatasetOptions options = any_file();
  options.skip_unlabelled = true;
  const std::string table = directory.write("a.csv", "x,y\n1,\n2,NA\n");
  CHECK(summarise(table, options).error().message == table + ": no sample has a label");
  const std::string sparse = directory.write("a.svm", "nan 1:1\n");
  CHECK(summarise(sparse, options).error().message == sparse + ": no sample has a label");
}

TEST_CASE("labels: a category that only an unlabelled sample has is none") {
  const TempDirectory directory;
  DatasetOptions options = any_file();
  options.skip_unlabelled = true;
  const std::string path = directory.write("a.csv", "c,y\nu,1\nw,\nv,0\n");
  const InputSchema schema = agree(summarise(path, options).value(), options).value();
  CHECK(schema.columns[0].categories == Words{"u", "v"});
}

// --- the first line ---------------------------------------------------------------------------

enum class Is { Header, Sample, Refused };

struct First {
  const char* text;
  Is is;
  const char* label = "";
};

TEST_CASE("CSV: what the first line is") {
  static const std::vector<First> kCases = {
      // A text above numbers is a name, in the label's column as elsewhere.
      {"x,y\n1,a\n2,b\n", Is::Header},
      {"1990,1991,grade\n5.5,6.5,0\n5,6,1\n", Is::Header},
      {"0,1,2,label\n5,6,7,0\n8,9,7,1\n", Is::Header},
      {",0,1,label\n0,5,6,3\n1,8,9,4\n", Is::Header},
      {"400.5,401.0,401.5,moisture\n.1,.2,.3,12.5\n.1,.3,.3,12.1\n", Is::Header},
      {"colour,size,y\nred,L,1\n", Is::Header},
      {"colour,size,y\nred,,1\nblue,3,0\n", Is::Header},
      {"y,1,2\n1,0.5,3\n0,0.1,3\n", Is::Header, "0"},
      {"y,0,1\n1,0.5,3\n0,0.1,3\n", Is::Refused, "0"},  // "0" is a name, if there are names
      // A text that comes again is a value.
      {"5.1,3.5,setosa\n4.9,3.0,setosa\n6,2,virginica\n", Is::Sample},
      {"p,x,s\np,y,s\ne,x,f\n", Is::Sample},
      {"?,x,s\np,x,s\ne,y,f\n", Is::Sample},
      {"e,1,2\np,3,2\ne,3,5\n", Is::Sample, "0"},
      // Numbers above numbers are values.
      {"5,0,7\n4,1,7\n", Is::Sample},
      {"0,1\n3,1\n", Is::Sample},
      {"1,cat\n2,dog\n", Is::Sample},
      {"1.5,NA,1\n2.5,3,0\n", Is::Sample},
      {"2020,2021,2023,7\n1,2,3,4\n", Is::Sample},
      // A text that never comes again, above texts that do.
      {"city,kind\nRome,a\nOslo,a\nRome,b\nOslo,b\n", Is::Header},
      {"7,kind\nRome,a\nOslo,a\nRome,b\nOslo,b\n", Is::Refused},
      {"1990,1991,country\n1,2,Italy\n2,2,Italy\n3,1,France\n3,2,France\n", Is::Refused},
      // Two signs that contradict each other.
      {"count,spam\n1,spam\n0,ham\n", Is::Refused},
      {"unknown,5.1,setosa\n4,4.9,setosa\n6,2,virginica\n", Is::Refused},
      {"unknown,5.1,1\n4,4.9,0\n6,2,1\n", Is::Refused},
      // No sign at all.
      {"red,a\nblue,b\n", Is::Refused},
      {"alice,red\nbob,blue\n", Is::Refused},
      // Numbers that count up: names of columns by pandas, or years.
      {"0,1,2\n5,3,1\n4,4,0\n", Is::Refused},
      {",0,1,2\n0,5,3,1\n1,4,4,0\n", Is::Refused},
      {"2019,2020,2021\n5,3,1\n4,4,0\n", Is::Refused},
      {"400.5,402.5,404.5,406.5,408.5\n.1,.2,.3,.1,4.5\n.3,.2,.3,.1,4.1\n", Is::Refused},
      {"2,4,6\n5,3,1\n4,4,0\n", Is::Sample},
      {"3,2,1\n5,3,1\n4,4,0\n", Is::Sample},
      {"1,1,1\n5,3,1\n4,4,0\n", Is::Sample},
      // Samples without a line below them.
      {"1,x\n", Is::Sample},
      {"1,2,3\n", Is::Sample},
  };
  for (const First& first : kCases) {
    CAPTURE(std::string(first.text));
    const TempDirectory directory;
    const std::string path = directory.write("a.csv", first.text);
    const auto read = read_csv(path, {.label_column = first.label});
    if (first.is == Is::Refused) {
      REQUIRE_FALSE(read.has_value());
      CHECK(read.error().message ==
            path +
                ":1: may be names of columns, or a sample; set dataset.header = true (names) or "
                "false");
    } else {
      REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
      CHECK(read->columns[0].name.empty() == (first.is == Is::Sample));
    }
    // The key settles each of them.
    const std::string text = first.text;
    const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    for (const bool header : {true, false}) {
      const auto stated = read_csv(path, {.header = header, .label_column = first.label});
      if (!stated) continue;  // names as values: a text in a column of numbers
      CHECK(stated->rows() == lines - (header ? 1 : 0));
      CHECK(stated->columns[0].name.empty() == !header);
    }
  }
}

TEST_CASE("CSV: names that are numbers can be named, and a name comes before an index") {
  const TempDirectory directory;
  const std::string path =
      directory.write("a.csv", "2019,2,0,1\n5,a,7,1\n6,b,8,0\n5,a,7,1\n6,b,8,0\n");
  const auto read = [&](const CsvOptions& options) { return read_csv(path, options).value(); };
  const CsvOptions by_name{.header = true, .label_column = "2"};
  CHECK(read(by_name).labels == Words{"a", "b", "a", "b"});
  CHECK(read(by_name).label == "2");
  CHECK(read({.header = true, .label_column = "3"}).label == "1");  // no such name: the index
  CHECK(read({.header = false, .label_column = "1", .categorical = {"1"}}).labels.front() == "2");
  const RawTable some =
      read({.header = true, .label_column = "1", .ignore = {"0"}, .categorical = {"2019"}});
  REQUIRE(some.columns.size() == 2);
  CHECK(some.columns[0].name == "2019");
  CHECK(some.columns[0].words == Words{"5", "6"});
  CHECK(some.columns[1].name == "2");
}

TEST_CASE("CSV: a model of a file without names refuses a line of names, or skips it if told") {
  const TempDirectory directory;
  const std::string train = directory.write("train.csv", "5.5,3.5,1\n4.5,3,0\n");
  const InputSchema schema = agree(summarise(train, any_file()).value(), any_file()).value();
  const std::string path = directory.write("new.csv", "a,b,y\n5.5,3.5,1\n");
  const auto refused = read_csv_as(path, schema, Unknown::Count);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message ==
        path +
            ":1: looks like names of columns, and the model was made from a file without; "
            "remove the line");
  CHECK(read_csv_as(path, schema, Unknown::Count, {.header = true}).value().rows() == 1);
  // It was made from such files: what may be either is a sample.
  CHECK(read_csv_as(directory.write("b.csv", "0,1,2\n3,3,1\n"), schema, Unknown::Count)
            .value()
            .rows() == 2);
}

}  // namespace
}  // namespace rubato::train::names_tests
