#include "train/data/table_files.hpp"

#include <zlib.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "tests/temp_directory.hpp"

using rubato::ErrorCode;
using rubato::TempDirectory;
using rubato::train::RawTable;
using rubato::train::read_csv;
using rubato::train::read_libsvm;
using Words = std::vector<std::string>;
using Values = std::vector<double>;

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
  const auto rows = read_csv(path, {.label_column = label_column});
  if (rows) return "";
  CHECK(rows.error().code == ErrorCode::BadInput);
  return rows.error().message.substr(path.size());
}

RawTable csv(const std::string& text, const std::string& label_column = "") {
  const TempDirectory directory;
  const auto rows = read_csv(directory.write("a.csv", text), {.label_column = label_column});
  REQUIRE_MESSAGE(rows.has_value(), rows.error().message);
  return *rows;
}

}  // namespace

TEST_CASE("LIBSVM: absent entries are zero, comments and blank lines are skipped") {
  const TempDirectory directory;
  const auto rows = read_libsvm(
      directory.write("a.svm", "# heading\n+1 1:0.5 3:-2\n\n-1 2:1e-1 # note\r\n+1\n"), 0);
  REQUIRE(rows.has_value());
  CHECK(rows->columns.size() == 3);
  CHECK(rows->labels == Words{"1", "-1", "1"});
  CHECK(rows->values == Values{0.5, 0, -2, 0, 0.1, 0, 0, 0, 0});
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
  CHECK(libsvm_error("1 0:1\n") ==
        ":1: index 0; indices start at 1. scikit-learn writes them so with zero_based = False");
  CHECK(libsvm_error("1 qid:3 1:1\n") ==
        ":1: \"qid:3\" names a group to rank, which is not learned; remove it");
  CHECK(libsvm_error("1 2:1 2:3\n") == ":1: index 2 after 2; indices start at 1 and ascend");
  CHECK(libsvm_error("1 1:1\n1 4:1\n", 3) ==
        ":2: index 4 is beyond the 3 features; set dataset.features to 4 or more");
  const TempDirectory directory;
  const std::string path = directory.write("a.svm", "1 1:1\n1 4:1\n");
  CHECK(read_libsvm(path, 0, {.inputs = 3}).error().message ==
        path +
            ":2: index 4 is beyond the 3 features of the model; remove it, or train with "
            "dataset.features = 4 or more");
  CHECK(libsvm_error("# nothing\n") == ": holds no samples");
  CHECK(libsvm_error("1\n2\n") == ": holds no features");
}

TEST_CASE("LIBSVM: a small file that asks for gigabytes is refused before memory is taken") {
  CHECK(libsvm_error("1 200000000:1\n0 1:1\n").find("is the largest index right?") !=
        std::string::npos);
}

TEST_CASE("CSV: with a header, the label in the last column") {
  const RawTable rows = csv("a,b,kind\n1,2.5,cat\n-3,0,dog\n");
  CHECK(rows.columns.size() == 2);
  CHECK(rows.values == Values{1, 2.5, -3, 0});
  CHECK(rows.labels == Words{"cat", "dog"});
}

TEST_CASE("CSV: without a header, the label by index") {
  const RawTable rows = csv("1,0.5,7\n1.0,1.5,8\n+2,2.5,9\n", "0");
  CHECK(rows.labels == Words{"1", "1.0", "+2"});
  CHECK(rows.values == Values{0.5, 7, 1.5, 8, 2.5, 9});
}

TEST_CASE("CSV: the label by name") {
  const RawTable rows = csv("kind,a\nx,1\ny,2\n", "kind");
  CHECK(rows.labels == Words{"x", "y"});
  CHECK(rows.values == Values{1, 2});
}

TEST_CASE("CSV: text labels alone make no header") {
  const RawTable rows = csv("1,cat\n2,dog\n");
  CHECK(rows.labels == Words{"cat", "dog"});
}

TEST_CASE("CSV: quotes, doubled quotes, commas and line ends in fields, CRLF, no final line end") {
  const RawTable rows = csv("\"a \"\"x\"\"\",kind\r\n\"1\",\"cat, big\"\r\n\r\n 2 ,\"dog\nsmall\"");
  CHECK(rows.values == Values{1, 2});
  CHECK(rows.labels == Words{"cat, big", "dog\nsmall"});
}

TEST_CASE("CSV: a bad record is named with the line on which it starts") {
  CHECK(csv_error("a,b\n1,x\n1,2,3\n") == ":3: 3 fields; the first line has 2");
  CHECK(csv_error("a,b\n1,\"x\ny\"\nz,w\n") ==
        ":4: column \"a\": \"z\" is not a number; mend it, or list the column in "
        "dataset.categorical");
  CHECK(csv_error("a,b\nx,1\n2,1\n", "b") ==
        ":2: column \"a\": \"x\" is not a number; mend it, or list the column in "
        "dataset.categorical");
  CHECK(csv_error("a,b\nx,1\ny,1\n2,1\n", "b") ==
        ":4: column \"a\": \"2\" is a number, but most of its column are texts such as \"x\"; mend "
        "it, or list the column in dataset.categorical");
  CHECK(csv_error("a,b\n") == ": holds no samples");
  CHECK(csv_error("") == ": holds no samples");
}

TEST_CASE("CSV: an unknown label column suggests the nearest") {
  CHECK(csv_error("width,species\n1,x\n", "specis") ==
        ":1: no column \"specis\" for dataset.label_column; did you mean species?");
  CHECK(csv_error("1,x\n", "2") == ":1: no column \"2\" for dataset.label_column; valid: 1, x");
}

TEST_CASE("a byte-order mark before the first line is no part of it") {
  const RawTable plain = csv("1,2,a\n3,4,b\n");
  const RawTable marked =
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
  const auto rows = read_csv("/nowhere.csv", {});
  REQUIRE_FALSE(rows.has_value());
  CHECK(rows.error().code == ErrorCode::Io);
  CHECK(rows.error().message == "/nowhere.csv: No such file or directory");
}

TEST_CASE("labels are sorted by value when all are numbers, else as text") {
  using rubato::train::distinct_labels;
  CHECK(distinct_labels({"10", "-1", "2", "10"}) == Words{"-1", "2", "10"});
  CHECK(distinct_labels({"10", "b", "2"}) == Words{"10", "2", "b"});
  CHECK(distinct_labels({"1.0", "2", "1", "01"}) == Words{"01", "1", "1.0", "2"});
}

namespace {

RawTable csv_of(const std::string& text, const rubato::train::CsvOptions& options) {
  const TempDirectory directory;
  const auto rows = read_csv(directory.write("a.csv", text), options);
  REQUIRE_MESSAGE(rows.has_value(), rows.error().message);
  return *rows;
}

}  // namespace

TEST_CASE("CSV: empty fields, NA, NaN and ? are missing") {
  const RawTable rows = csv("a,b,kind\n1,,x\nNA,?,y\nNaN,4,nan\n");
  CHECK(rows.values[0] == 1);
  CHECK(rows.values[5] == 4);
  for (const std::size_t i : {1, 2, 3, 4}) CHECK(std::isnan(rows.values[i]));
  CHECK(rows.labels == Words{"x", "y", ""});
  CHECK(rows.lines == std::vector<std::uint32_t>{2, 3, 4});
}

TEST_CASE("CSV: columns of texts are categories, which stay as they are written") {
  const RawTable rows =
      csv_of("city,zone,code,y\nRome,1,007,a\n\"New York\",1.0,7,b\nRome,2,NA,a\n",
             {.label_column = "y", .ignore = {}, .categorical = {"zone", "code"}});
  CHECK(rows.columns[0].text);
  CHECK(rows.columns[0].words == Words{"Rome", "New York"});
  CHECK(rows.columns[1].words == Words{"1", "1.0", "2"});
  CHECK(rows.columns[2].words == Words{"007", "7"});
  CHECK(rows.values[3] == 1);
  CHECK(rows.values[6] == 0);
  CHECK(rows.values[7] == 2);
  CHECK(std::isnan(rows.values[8]));
}

TEST_CASE("CSV: ignored columns are not there") {
  const RawTable rows =
      csv_of("id,a,y\n7,1,x\n8,2,y\n", {.label_column = "", .ignore = {"id"}, .categorical = {}});
  REQUIRE(rows.columns.size() == 1);
  CHECK(rows.columns[0].name == "a");
  CHECK(rows.values == Values{1, 2});
  CHECK(rows.ignored == std::vector<std::size_t>{0});
  // A box may lack it: all boxes have one list.
  const RawTable other = csv_of(
      "a,y\n1,x\n2,y\n", {.header = true, .label_column = "", .ignore = {"id"}, .categorical = {}});
  CHECK(other.columns.size() == 1);
  CHECK(other.ignored.empty());
}

TEST_CASE("CSV: a first line is a header only if it looks unlike the rest") {
  CHECK(csv("red,1,x\nblue,2,y\n").columns[0].name.empty());           // a number above numbers
  CHECK(csv("colour,size,y\nred,L,1\n").columns[0].name == "colour");  // none comes again
  const RawTable letters = csv("p,x,s\np,y,s\ne,x,f\n");               // texts that come again
  CHECK(letters.columns[0].name.empty());
  CHECK(letters.labels.size() == 3);
  const RawTable indexed = csv(",a,a,y\n0,1,2,x\n");
  CHECK(indexed.columns[0].name == "column 0");
  CHECK(indexed.columns[2].name == "a (2)");
}

TEST_CASE("CSV and LIBSVM: gzip, and what is no UTF-8") {
  const TempDirectory directory;
  const std::string path = directory.path("a.csv.gz");
  const gzFile file = gzopen(path.c_str(), "wb");
  const std::string text = "stadt,y\nK\xF6ln,1\n";
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  const auto rows = read_csv(path, {});
  REQUIRE(rows.has_value());
  CHECK(rows->columns[0].words == Words{"K\xC3\xB6ln"});
  const std::string bytes = rubato::read_file(path).value();
  const std::string cut = directory.write("cut.csv.gz", bytes.substr(0, bytes.size() - 12));
  CHECK(read_csv(cut, {}).error().message ==
        cut + ": is damaged or ends early; make it again with gzip");
  // Pieces one behind the other are one text; what is behind them and is none is not left out.
  CHECK(read_csv(directory.write("two.csv.gz", bytes + bytes), {})
            .error()
            .message.ends_with(
                "the line of names comes again, as where files were joined; remove it"));
  CHECK(read_csv(directory.write("zeros.csv.gz", bytes + std::string(512, '\0')), {})
            .value()
            .rows() == 1);
  const std::string plain = directory.write("plain.csv.gz", bytes + "Bonn,2\n");
  CHECK(read_csv(plain, {}).error().message ==
        plain + ": 7 bytes behind its packed data are not packed; make it again with gzip");
  const std::string half = directory.write("half.csv.gz", bytes + bytes.substr(0, 20));
  CHECK(read_csv(half, {}).error().message ==
        half + ": is damaged or ends early; make it again with gzip");
}

TEST_CASE("CSV: one byte that is no UTF-8 among characters that are is named, and not guessed at") {
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", "x,y\n1,\u00E9t\u00E9\n2,hi\xFFver\n");
  CHECK(
      read_csv(path, {}).error().message ==
      path +
          ":3: the byte ff is no UTF-8, as which the rest reads; mend it, or set dataset.encoding");
}

TEST_CASE("CSV: a column of a text for each row is refused") {
  std::string text = "name,y\n";
  for (int i = 0; i < 1001; ++i) text += "n" + std::to_string(i) + ",1\n";
  CHECK(
      csv_error(text) ==
      ":1002: column \"name\": more than 1000 different categories, such as \"n1000\"; mend it, or "
      "list the column in dataset.ignore");
  text = "x;y\n";
  for (int i = 0; i < 1001; ++i) text += std::to_string(i) + " %;1\n";
  CHECK(csv_error(text).find("such as \"1000 %\" (a percentage; write it without the %)") !=
        std::string::npos);
}
