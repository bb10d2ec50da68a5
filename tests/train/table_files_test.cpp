#include "train/table_files.hpp"

#include <vector>

#include "tests/temp_directory.hpp"

using rubato::ErrorCode;
using rubato::TempDirectory;
using rubato::train::LabelledRows;
using rubato::train::read_csv;
using rubato::train::read_libsvm;
using Words = std::vector<std::string>;
using Values = std::vector<float>;

namespace {

// What is said of a file with this text, after its path.
std::string libsvm_error(const std::string& text, std::size_t features = 0) {
  const TempDirectory directory;
  const std::string path = directory.write("a.svm", text);
  const auto rows = read_libsvm(path, features);
  if (rows) return "";
  CHECK(rows.error().code == ErrorCode::BadInput);
  return rows.error().message.substr(path.size());
}

std::string csv_error(const std::string& text, const std::string& label_column = "") {
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", text);
  const auto rows = read_csv(path, label_column);
  if (rows) return "";
  CHECK(rows.error().code == ErrorCode::BadInput);
  return rows.error().message.substr(path.size());
}

LabelledRows csv(const std::string& text, const std::string& label_column = "") {
  const TempDirectory directory;
  const auto rows = read_csv(directory.write("a.csv", text), label_column);
  REQUIRE_MESSAGE(rows.has_value(), rows.error().message);
  return *rows;
}

}  // namespace

TEST_CASE("LIBSVM: absent entries are zero, comments and blank lines are skipped") {
  const TempDirectory directory;
  const auto rows = read_libsvm(
      directory.write("a.svm", "# heading\n+1 1:0.5 3:-2\n\n-1 2:1e-1 # note\r\n+1\n"), 0);
  REQUIRE(rows.has_value());
  CHECK(rows->features == 3);
  CHECK(rows->labels == Words{"1", "-1", "1"});
  CHECK(rows->values == Values{0.5f, 0, -2, 0, 0.1f, 0, 0, 0, 0});
}

TEST_CASE("LIBSVM: a number of features may be given that the file does not reach") {
  const TempDirectory directory;
  const auto rows = read_libsvm(directory.write("a.svm", "1 1:1\n"), 3);
  REQUIRE(rows.has_value());
  CHECK(rows->values == Values{1, 0, 0});
}

TEST_CASE("LIBSVM: a bad line is named with its number") {
  CHECK(libsvm_error("1 1:1\nx 1:1\n") == ":2: label \"x\" is not a number");
  CHECK(libsvm_error("1 1:1 2\n") == ":1: \"2\" is not index:value");
  CHECK(libsvm_error("1 a:1\n") == ":1: \"a:1\" is not index:value");
  CHECK(libsvm_error("1 1:\n") == ":1: \"1:\" is not index:value");
  CHECK(libsvm_error("1 1:nan\n") == ":1: \"1:nan\" is not index:value");
  CHECK(libsvm_error("1 -1:1\n") == ":1: \"-1:1\" is not index:value");
  CHECK(libsvm_error("1 0:1\n") == ":1: index 0 after 0; indices start at 1 and ascend");
  CHECK(libsvm_error("1 2:1 2:3\n") == ":1: index 2 after 2; indices start at 1 and ascend");
  CHECK(libsvm_error("1 1:1\n1 4:1\n", 3) ==
        ":2: index 4 is beyond the 3 features; set dataset.features to 4 or more");
  CHECK(libsvm_error("# nothing\n") == ": holds no samples");
  CHECK(libsvm_error("1\n2\n") == ": holds no features");
}

TEST_CASE("LIBSVM: an index that would need terabytes is refused") {
  CHECK(libsvm_error("1 4000000000:1\n").find("do not fit into memory") != std::string::npos);
}

TEST_CASE("CSV: with a header, the label in the last column") {
  const LabelledRows rows = csv("a,b,kind\n1,2.5,cat\n-3,0,dog\n");
  CHECK(rows.features == 2);
  CHECK(rows.values == Values{1, 2.5f, -3, 0});
  CHECK(rows.labels == Words{"cat", "dog"});
}

TEST_CASE("CSV: without a header, the label by index") {
  const LabelledRows rows = csv("1,0.5,7\n1.0,1.5,8\n+2,2.5,9\n", "0");
  CHECK(rows.labels == Words{"1", "1", "2"});
  CHECK(rows.values == Values{0.5f, 7, 1.5f, 8, 2.5f, 9});
}

TEST_CASE("CSV: the label by name") {
  const LabelledRows rows = csv("kind,a\nx,1\ny,2\n", "kind");
  CHECK(rows.labels == Words{"x", "y"});
  CHECK(rows.values == Values{1, 2});
}

TEST_CASE("CSV: text labels alone make no header") {
  const LabelledRows rows = csv("1,cat\n2,dog\n");
  CHECK(rows.labels == Words{"cat", "dog"});
}

TEST_CASE("CSV: quotes, doubled quotes, commas and line ends in fields, CRLF, no final line end") {
  const LabelledRows rows =
      csv("\"a \"\"x\"\"\",kind\r\n\"1\",\"cat, big\"\r\n\r\n 2 ,\"dog\nsmall\"");
  CHECK(rows.values == Values{1, 2});
  CHECK(rows.labels == Words{"cat, big", "dog\nsmall"});
}

TEST_CASE("CSV: a bad record is named with the line on which it starts") {
  CHECK(csv_error("a,b\n1,x\n1,2,3\n") == ":3: 3 fields; the first line has 2");
  CHECK(csv_error("a,b\n1,\"x\ny\"\nz,w\n") == ":4: column 0: \"z\" is not a number");
  CHECK(csv_error("1,2,x\n,2,x\n") == ":2: column 0: \"\" is not a number");
  CHECK(csv_error("1,2,x\n1,2,\n") == ":2: column 2: no label");
  CHECK(csv_error("1,x\n2,\"y\n") == ":2: a quote is never closed");
  CHECK(csv_error("1,x\n2,\"y\"z\n") == ":2: text after a closing quote");
  CHECK(csv_error("1\n2\n") == ":1: one field; a label and a feature need two");
  CHECK(csv_error("a,b\n") == ": holds no samples");
  CHECK(csv_error("") == ": holds no samples");
}

TEST_CASE("CSV: an unknown label column suggests the nearest") {
  CHECK(csv_error("width,species\n1,x\n", "specis") ==
        ":1: no column \"specis\" for dataset.label_column; did you mean species?");
  CHECK(csv_error("1,x\n", "2") == ":1: no column \"2\" for dataset.label_column; valid: 1, x");
}

TEST_CASE("a byte-order mark before the first line is no part of it") {
  const LabelledRows plain = csv("1,2,a\n3,4,b\n");
  const LabelledRows marked =
      csv("\xEF\xBB\xBF"
          "1,2,a\n3,4,b\n");
  CHECK(marked.labels == plain.labels);
  CHECK(marked.values == plain.values);
  CHECK(csv("\xEF\xBB\xBFspecies,width\na,1\n", "species").labels == Words{"a"});
  CHECK(csv("\xEF\xBB\xBF\"species\",width\na,1\n", "species").values == Values{1});
  CHECK(libsvm_error("\xEF\xBB\xBF"
                     "1 1:1\n") == "");
}

TEST_CASE("a missing file is named") {
  const auto rows = read_csv("/nowhere.csv", "");
  REQUIRE_FALSE(rows.has_value());
  CHECK(rows.error().code == ErrorCode::Io);
  CHECK(rows.error().message == "/nowhere.csv: No such file or directory");
}

TEST_CASE("labels are sorted by value when all are numbers, else as text") {
  using rubato::train::distinct_labels;
  CHECK(distinct_labels({"10", "-1", "2", "10"}) == Words{"-1", "2", "10"});
  CHECK(distinct_labels({"10", "b", "2"}) == Words{"10", "2", "b"});
}

TEST_CASE("labels become positions, one that is not in the training data is refused") {
  using rubato::train::number_labels;
  const auto numbers = number_labels({"b", "a", "b"}, {"a", "b"}, "x.csv");
  REQUIRE(numbers.has_value());
  CHECK(*numbers == std::vector<std::int32_t>{1, 0, 1});
  const auto wrong = number_labels({"c"}, {"a", "b"}, "x.csv");
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().message == "x.csv: label \"c\" is not in the training data");
}
