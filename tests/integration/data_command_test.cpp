// `rubato data`: what a new user sees of a file.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

constexpr const char* kPeople =
    "id,age,city,risk\n"
    "1,20,Rome,low\n"
    "2,,Oslo,high\n"
    "3,40,\"New York, NY\",low\n"
    "4,60,Rome,low\n";

TEST_CASE("data shows columns, classes, missing values and the first samples") {
  const Workplace place;
  place.write("people.csv", kPeople);
  Process process(place, {"data", "people.csv", "--ignore", "id", "--schema", "schema.json"});
  REQUIRE(process.wait_for_end() == 0);
  CHECK(process.err().empty());
  CHECK(process.out() ==
        "people.csv: CSV, 4 samples; first line: names\n"
        "2 columns; the label is column risk\n"
        "\n"
        "Column      Kind  Missing  Mean  Deviation                   Categories\n"
        "age       number        1    40    16.3299                            -\n"
        "city    category        0     -          -  3: New York, NY, Oslo, Rome\n"
        "\n"
        "Class  Samples   Share\n"
        "high         1  25.0 %\n"
        "low          3  75.0 %\n"
        "\n"
        "First samples\n"
        "         age          city  label\n"
        "1         20          Rome    low\n"
        "2  (missing)          Oslo   high\n"
        "3         40  New York, NY    low\n"
        "4         60          Rome    low\n"
        "\n"
        "A model takes 5 inputs of a sample and gives 2 scores.\n");
  const auto schema = nlohmann::json::parse(read_file(place.path("schema.json")).value());
  CHECK(schema.at("columns").size() == 2);
  CHECK(schema.at("classes") == nlohmann::json({"high", "low"}));
}

TEST_CASE("data leaves out columns whose names have commas, and says what a text may mean") {
  const Workplace place;
  place.write("a.csv", "\"id, no\",b,x,y\n7,1,5\u202F000,p\n3,2,6\u202F000,q\n9,2,5\u202F000,q\n");
  for (const std::vector<std::string>& ignore :
       {std::vector<std::string>{"--ignore", "\"id, no\",b"},
        std::vector<std::string>{"--ignore", "\"id, no\"", "--ignore", "b"}}) {
    std::vector<std::string> arguments = {"data", "a.csv"};
    arguments.insert(arguments.end(), ignore.begin(), ignore.end());
    Process process(place, arguments);
    REQUIRE(process.wait_for_end() == 0);
    CHECK(contains(process.out(), "1 column; the label is column y"));
    CHECK(contains(process.out(),
                   "Warning: Column \"x\" holds texts such as \"5\u202F000\": a number"));
  }
  Process open(place, {"data", "a.csv", "--ignore", "\"id"});
  CHECK(open.wait_for_end() == 2);
  CHECK(contains(open.err(), "--ignore: a quote is never closed"));
}

TEST_CASE("data of several boxes is merged, as JSON too") {
  const Workplace place;
  place.write("a.csv", "x,y\n1,p\n3,q\n");
  place.write("b.csv", "y,x\nr,8\n");
  Process process(place, {"data", "a.csv", "b.csv", "--label", "y", "--json"});
  REQUIRE(process.wait_for_end() == 0);
  const auto json = nlohmann::json::parse(process.out());
  CHECK(json.at("summary").at("samples") == 3);
  CHECK(json.at("schema").at("classes") == nlohmann::json({"p", "q", "r"}));
  CHECK(json.at("schema").at("columns")[0].at("fill") == 4);
  CHECK(json.at("files")[1].at("samples") == 1);
  CHECK(json.at("files")[1].at("first_line") == "names");
  CHECK(json.at("files")[1].at("unlabelled") == 0);
}

TEST_CASE("data says what the first line is, and asks where it may be either") {
  const Workplace place;
  place.write("a.csv", "0,1,2\n5,3,1\n4,4,0\n");
  const auto out = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"data", "a.csv"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Process process(place, arguments);
    CHECK(process.wait_for_end() == (more.empty() ? 2 : 0));
    return more.empty() ? process.err() : process.out();
  };
  CHECK(out({}) ==
        "rubato: a.csv:1: may be names of columns, or a sample; set --header true (names) "
        "or false\n");
  CHECK(out({"--header", "true"})
            .starts_with("a.csv: CSV, 2 samples; first line: names\n2 columns; the label is column "
                         "2\n"));
  CHECK(out({"--header", "false"}).starts_with("a.csv: CSV, 3 samples; first line: values\n"));
}

TEST_CASE("data keeps names and digits, counts missing labels, and warns of one number twice") {
  const Workplace place;
  place.write("a.csv",
              "time,code,y\n1700000003,007,1\n1700000007,7,1.0\n1700000005,7.0,\n"
              "1700000005,7,0\n");
  Process process(place, {"data", "a.csv", "--categorical", "code"});
  REQUIRE(process.wait_for_end() == 0);
  const std::string page = process.out();
  CAPTURE(page);
  for (const char* part :
       {"CSV, 3 samples", "1700000005", "1.63299", "2: 007, 7\n",
        "Classes \"1\" and \"1.0\" are two, though one number.",
        "a.csv: 1 sample without a label is left out\nTraining refuses samples without a label, "
        "unless [dataset] has skip_unlabelled = true.\n",
        "1700000003   007      1\n"})
    CHECK_MESSAGE(page.find(part) != std::string::npos, part);
}

TEST_CASE("data that cannot be used is one line and exit code 2") {
  const Workplace place;
  place.write("people.csv", kPeople);
  place.write("other.csv", "age,risk\nold,low\n");
  const auto line = [&](const std::vector<std::string>& arguments) {
    Process process(place, arguments);
    CHECK(process.wait_for_end() == 2);
    CHECK(process.out().empty());
    return process.err();
  };
  CHECK(line({"data", "absent.csv"}) == "rubato: absent.csv: No such file or directory\n");
  CHECK(line({"data", "people.csv", "--label", "rsk"}) ==
        "rubato: people.csv:1: no column \"rsk\" for --label; did you mean risk?\n");
  CHECK(line({"data", "people.csv", "other.csv", "--ignore", "age"}).starts_with("rubato: "));
  CHECK(line({"data", "people.csv", "--kind", "excel"}) ==
        "rubato: --kind excel: must be csv, libsvm, numpy, idx or images\n");
}

}  // namespace
}  // namespace rubato::integration
