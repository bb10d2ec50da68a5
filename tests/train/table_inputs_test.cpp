// What becomes of tables as people have them: separators, decimals, encodings, files that are no
// tables, texts that are meant as numbers.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "base/file.hpp"
#include "tests/temp_directory.hpp"
#include "train/data/data_files.hpp"
#include "train/data/table_files.hpp"

namespace rubato::train {
namespace {

using namespace std::string_literals;

// What a file or a field holds, and what becomes of it.
struct Case {
  std::string text, is;
};

std::string number_text(const RawTable& table, std::size_t row, std::size_t column) {
  const double value = table.values[row * table.columns.size() + column];
  if (value != value) return "";
  if (table.columns[column].text)
    return '"' + table.columns[column].words[static_cast<std::size_t>(value)] + '"';
  return fmt::format("{}", value);
}

// The table as "names|values of a row -> label|...", or what is wrong, after the path.
std::string read(const std::string& text, CsvOptions options = {}) {
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", text);
  const auto table = read_csv(path, options);
  if (!table) {
    CHECK(table.error().code == ErrorCode::BadInput);
    CHECK(table.error().message.starts_with(path));
    return table.error().message.substr(path.size());
  }
  std::string out;
  for (const RawColumn& column : table->columns) out += column.name + ' ';
  for (std::size_t row = 0; row < table->rows(); ++row) {
    out += "| ";
    for (std::size_t c = 0; c < table->columns.size(); ++c)
      out += number_text(*table, row, c) + ' ';
    out += "-> " + table->labels[row] + ' ';
  }
  if (!table->format.empty()) out += "(" + table->format + ")";
  return out;
}

std::string utf_16(const std::string& ascii, bool little, bool mark) {
  std::string bytes;
  const auto put = [&](char high, char low) {
    bytes += little ? low : high;
    bytes += little ? high : low;
  };
  if (mark) put('\xFE', '\xFF');
  for (const char c : ascii) put('\0', c);
  return bytes;
}

}  // namespace

TEST_CASE("tables: what fields end at is found, and said") {
  const Case cases[] = {
      {"x,y\n1,a\n2,b\n", "x | 1 -> a | 2 -> b "},
      {"x;y\n1;a\n2;b\n", "x | 1 -> a | 2 -> b (separator \";\")"},
      {"x\ty\n1\ta\n2\tb\n", "x | 1 -> a | 2 -> b (separator tab)"},
      {"x|y\n1|a\n2|b\n", "x | 1 -> a | 2 -> b (separator \"|\")"},
      {"x  y\n 1   a\n2 b  \n", "x | 1 -> a | 2 -> b (separator blank)"},
      {"x \t y\n1\ta\n2 \tb\n", "x | 1 -> a | 2 -> b (separator tab)"},
      // Decimal commas.
      {"x;z;y\n1,5;2;a\n2,25;3;b\n",
       "x z | 1.5 2 -> a | 2.25 3 -> b (separator \";\"; decimal \",\")"},
      {"1,5;2,5;a\n3,5;4,5;b\n",
       "  | 1.5 2.5 -> a | 3.5 4.5 -> b (separator \";\"; decimal \",\")"},
      {"\"1,5\",a\n\"2,75\",b\n", " | 1.5 -> a | 2.75 -> b (decimal \",\")"},
      {"1,5\t-0,25e3\ta\n", "  | 1.5 -250 -> a (separator tab; decimal \",\")"},
      {"0,123;a\n0,456;b\n", " | 0.123 -> a | 0.456 -> b (separator \";\"; decimal \",\")"},
      // Another separator within fields.
      {"x;y\nSmith, J;a\nDoe, K;b\nSmith, J;a\nDoe, K;b\n",
       "x | \"Smith, J\" -> a | \"Doe, K\" -> b | \"Smith, J\" -> a | \"Doe, K\" -> b (separator "
       "\";\")"},
      {"c,x,y\nr;b,3,a\nr;b,4,b\n", "c x | \"r;b\" 3 -> a | \"r;b\" 4 -> b "},
      {"x,y\n\"a;b\",1\n\"c;d\",2\n\"a;b\",1\n\"c;d\",2\n",
       "x | \"a;b\" -> 1 | \"c;d\" -> 2 | \"a;b\" -> 1 | \"c;d\" -> 2 "},
      // Excel says it itself.
      {"sep=;\nx;y\n1;a\n", "x | 1 -> a (separator \";\")"},
      {"sep=|\r\nx|y\r\n1|a\r\n", "x | 1 -> a (separator \"|\")"},
      // Line ends.
      {"x,y\r1,a\r2,b\r", "x | 1 -> a | 2 -> b "},
      {"x,y\r\n1,a\r\n\r\n2,b", "x | 1 -> a | 2 -> b "},
      {"x;y\n1;\"a\nb\"\n2;c\n",
       "x | 1 -> a\nb | 2 -> c (separator \";\"; 1 line end within quotes)"},
      // A bad line does not change what the others say.
      {"x;y\n1;a\n2\n3;b\n4;a\n", ":3: 1 fields; the first line has 2"},
      {"x,y\n1,a\n2,b,c\n3,b\n", ":3: 3 fields; the first line has 2"},
      // What may be either is refused.
      {"r;g,b;y\nr;g,b;y\n", ": fields may end at \",\" or at \";\"; set dataset.separator"},
      {"1,234;a\n5,678;b\n",
       ": \"1,234\" may be a number with decimals or one of thousands; set dataset.decimal = "
       "\",\", or remove the commas"},
      // A text with commas among texts says nothing of numbers.
      {"x,y\n1,\"1,000\"\n2,A1\n", "x | 1 -> 1,000 | 2 -> A1 "},
      {"x;y;z\n1,234;2.5;a\n5,678;3.5;b\n1,234;2.5;a\n5,678;3.5;b\n",
       "x y | \"1,234\" 2.5 -> a | \"5,678\" 3.5 -> b | \"1,234\" 2.5 -> a | \"5,678\" 3.5 -> b "
       "(separator \";\")"},
      {"1\n2\n3\n",
       ":1: one field; a label and a feature need two. If fields end at another character than "
       "those that are looked for (comma, semicolon, tab, |, blank), set dataset.separator"},
      {"1~a\n2~b\n",
       ":1: one field; a label and a feature need two. If fields end at another character than "
       "those that are looked for (comma, semicolon, tab, |, blank), set dataset.separator"},
  };
  for (const auto& [text, is] : cases) CHECK_MESSAGE(read(text) == is, text);
}

TEST_CASE("tables: what is stated holds") {
  const auto text = [](const TextFormat& format) { return CsvOptions{.rows = {.text = format}}; };
  CHECK(read("1~a\n2~b\n", text({.separator = "~"})) == " | 1 -> a | 2 -> b (separator \"~\")");
  CHECK(read("1 2;a\n3 4;b\n", text({.separator = "blank"})) ==
        " | 1 -> 2;a | 3 -> 4;b (separator blank)");
  CHECK(read("1,234;a\n5,678;b\n", text({.decimal = ","})) ==
        " | 1.234 -> a | 5.678 -> b (separator \";\"; decimal \",\")");
  CHECK(read("x,y\n-,a\n2,b\n", text({.missing = {"-"}})) == "x |  -> a | 2 -> b ");
  CHECK(read("x,y\n-999,a\n2,b\n", text({.missing = {"-999"}})) == "x |  -> a | 2 -> b ");
  CHECK(read("x,y\n1,none\n2,b\n", {.rows = {.unlabelled = Unlabelled::Skip,
                                             .text = {.missing = {"none"}}}}) == "x | 2 -> b ");
  CHECK(read("x,y\n1,caf\xE9\n", text({.encoding = "ISO-8859-1"})) ==
        "x | 1 -> caf\xC3\xA9 (encoding ISO-8859-1)");
  CHECK(read("x,y\n1,\xA4\n", text({.encoding = "ISO-8859-15"})) ==
        "x | 1 -> \xE2\x82\xAC (encoding ISO-8859-15)");
  for (const std::string wrong : {"ab", "a", "1", ".", "\""})
    CHECK(read("x,y\n1,a\n", text({.separator = wrong}))
              .starts_with(": dataset.separator = \"" + wrong + "\": must be one character"));
  CHECK(read("x,y\n1,a\n", text({.decimal = ";"})) ==
        ": dataset.decimal = \";\": must be \".\" or \",\"");
  CHECK(read("x,y\n1,a\n", text({.encoding = "UTF-9"}))
            .starts_with(": the encoding \"UTF-9\" is not known here"));
  CHECK(read("x,y\n1,a\n2,\xFF\n", text({.encoding = "UTF-8"})) ==
        ":3: the text is not UTF-8 from here on; set the encoding");
}

TEST_CASE("tables: encodings are found, and said") {
  const std::string table = "x;y\n1;caf\xE9\n";
  CHECK(read(table) == "x | 1 -> caf\xC3\xA9 (separator \";\"; encoding WINDOWS-1252)");
  CHECK(read("x,y\n1,\x80\x93\n") == "x | 1 -> \xE2\x82\xAC\xE2\x80\x9C (encoding WINDOWS-1252)");
  CHECK(read("x,y\n1,\x81\n") == "x | 1 -> \xC2\x81 (encoding ISO-8859-1)");
  CHECK(read("\xEF\xBB\xBFx,y\n1,caf\xC3\xA9\n") == "x | 1 -> caf\xC3\xA9 ");
  for (const bool little : {false, true})
    for (const bool mark : {false, true})
      CHECK(read(utf_16("x,y\r\n1,a\r\n2,b\r\n", little, mark)) ==
            fmt::format("x | 1 -> a | 2 -> b (encoding UTF-16{}E)", little ? 'L' : 'B'));
}

TEST_CASE("tables: what is no table is said by its name") {
  const Case cases[] = {
      {"PK\x03\x04zip", "is a ZIP archive"},
      {"PAR1\x15\x04", "is a Parquet file; save it as CSV"},
      {"ARROW1\0\0"s, "is an Arrow or Feather file"},
      {"\x89HDF\r\n\x1a\n", "is an HDF5 file"},
      {"SQLite format 3\0"s, "is an SQLite database"},
      {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "is a document of an old Office"},
      {"\x93NUMPY\x01\0"s, "is a NumPy array"},
      {"\x80\x04\x95", "is a Python pickle"},
      {"%PDF-1.7", "is a PDF document"},
      {"BZh91AY", "is compressed by bzip2"},
      {"\xFD\x37zXZ\0"s, "is compressed by xz"},
      {"\x28\xB5\x2F\xFD", "is compressed by Zstandard"},
      {"\x89PNG\r\n\x1a\n", "is an image"},
      {"\xFF\xD8\xFF\xE0", "is an image"},
      {"version https://git-lfs.github.com/spec/v1\noid", "is a pointer of Git LFS"},
      {"\n <!DOCTYPE html>\n<html>", "is a web page"},
      {"<?xml version=\"1.0\"?>", "is an XML document"},
      {"@RELATION iris\n@ATTRIBUTE", "is an ARFF file"},
      {"% 1. Title\n%\n\n% 2. Sources\r\n@relation iris", "is an ARFF file"},
      {"[{\"x\": 1, \"y\": 2}]", "is a JSON file"},
      {"{\"x\": [1, 2], \"y\": [3, 4]}", "is a JSON file"},
  };
  for (const auto& [bytes, is] : cases)
    CHECK_MESSAGE(read(bytes).starts_with(": " + is), read(bytes));
  CHECK(read("x,y\n1,a\n2,\0b\n"s) == ":3: holds a zero byte, so it is no text, or damaged");
}

TEST_CASE("tables: numbers in other spellings") {
  const auto of = [](const std::string& field) { return read("x,y\n1,a\n\"" + field + "\",b\n"); };
  const auto value = [](const std::string& field) { return "x | 1 -> a | " + field + " -> b "; };
  CHECK(of("+2") == value("2"));
  CHECK(of("1e3") == value("1000"));
  CHECK(of("1E-50") == value("1e-50"));
  CHECK(of("1e-400") == value("0"));
  CHECK(of("007") == value("7"));
  const Case cases[] = {
      {"12%", "a percentage; write it without the %"},
      {"12.5 %", "a percentage; write it without the %"},
      {"1,234.5", "a number with digits in groups; write it without the marks between them"},
      {"1.234,5", "a number with digits in groups; write it without the marks between them"},
      {"1'234'567", "a number with digits in groups; write it without the marks between them"},
      {"1\u00A0234", "a number with digits in groups; write it without the marks between them"},
      {"1\u202F234,5", "a number with digits in groups; write it without the marks between them"},
      {"1\u2019234", "a number with digits in groups; write it without the marks between them"},
      {"1,23,456", "a number with digits in groups; write it without the marks between them"},
      {"-12,34,567.8", "a number with digits in groups; write it without the marks between them"},
      {"5\u00A0%", "a percentage; write it without the %"},
      {"12,5 %", "a percentage; write it without the %"},
      {"\u22125",
       "a number in other characters, or with blanks in quotes; write it as 12, -0.5 or 1e-3"},
      {"\uFF15",
       "a number in other characters, or with blanks in quotes; write it as 12, -0.5 or 1e-3"},
      {" 5 ",
       "a number in other characters, or with blanks in quotes; write it as 12, -0.5 or 1e-3"},
      {"'5", "a number with other marks beside it; write it as 12, -0.5 or 1e-3"},
      {"<0.1", "a number with other marks beside it; write it as 12, -0.5 or 1e-3"},
      {"(5)", "a number in brackets; write it without them, with a minus if they stand for one"},
      {"5-", "a negative number with its sign at the end; write the sign in front"},
      {"9:15",
       "a date or a time; give it as a number, such as seconds, or list the column in "
       "dataset.ignore"},
      {"n.a.", "if it stands for no value, set dataset.missing = [\"n.a.\"]"},
      {"\u2014", "if it stands for no value, set dataset.missing = [\"\u2014\"]"},
      {"1 234 kg", "a number with a unit; write it without \"kg\""},
      {"5,20 \xE2\x82\xAC", "an amount of money; write it without \"\xE2\x82\xAC\""},
      {"5 kg", "a number with a unit; write it without \"kg\""},
      {"$5", "an amount of money; write it without \"$\""},
      {"5 \xE2\x82\xAC", "an amount of money; write it without \"\xE2\x82\xAC\""},
      {"0x1F", "a hexadecimal number; write it in decimal digits"},
      {"inf", "an infinite number; only finite ones can be learned"},
      {"-Infinity", "an infinite number; only finite ones can be learned"},
      {"1e400", "a number too large to be learned; they go up to 3.4e+38"},
      {"N/A", "if it stands for no value, set dataset.missing = [\"N/A\"]"},
      {"NULL", "if it stands for no value, set dataset.missing = [\"NULL\"]"},
      {"-", "if it stands for no value, set dataset.missing = [\"-\"]"},
      {"2026-11-25",
       "a date or a time; give it as a number, such as seconds, or list the column in "
       "dataset.ignore"},
      {"25.11.2026 08:15",
       "a date or a time; give it as a number, such as seconds, or list the column in "
       "dataset.ignore"},
  };
  for (const auto& [field, says] : cases)
    CHECK_MESSAGE(of(field) == ":3: column \"x\": \"" + field + "\" is not a number (" + says + ")",
                  of(field));
  CHECK(read("x,y\nN/A,a\n5,b\n") ==
        ":3: column \"x\": \"5\" is a number, but \"N/A\" above it is a text (if it stands for no "
        "value, set dataset.missing = [\"N/A\"])");
  CHECK(read("x;y\n0,5;a\n1.5;b\n", {.rows = {.text = {.decimal = ","}}}) ==
        ":3: column \"x\": \"1.5\" is not a number (a number with a decimal point; set "
        "dataset.decimal = \".\")");
  CHECK(read("x,y\n1,a\n=\"5\",b\n") ==
        ":3: column \"x\": \"=\"5\"\" is not a number (a number with other marks beside it; write "
        "it as 12, -0.5 or 1e-3)");
  // Quotes may have blanks around them.
  CHECK(read("x,z,y\n \"5\" ,1, \"a\"\n\t\"6\"\t, 2,\" b\" \n") == "x z | 5 1 -> a | 6 2 ->  b ");
  CHECK(read("x\ty\n \"5\" \t\"a\"\n\t\"b\"\n") == "x | 5 -> a |  -> b (separator tab)");
  for (const std::string code : {"12-34", "7b", "A1", "red", "1.2.3", "18-25", "12 34", "18+"})
    CHECK(of(code).ends_with("mend it, or list the column in dataset.categorical"));
}

TEST_CASE("tables: a share of lines may be wrong, and is counted and named") {
  std::string text = "x,y\n";
  for (int i = 0; i < 98; ++i) text += fmt::format("{},a\n", i);
  text += "oops,b\n5,b,c\n";
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", text);
  const auto with = [&](double share) { return read_csv(path, {.rows = {.skip_bad = share}}); };
  CHECK(with(0).error().message.starts_with(path + ":100: column \"x\": \"oops\""));
  const RawTable table = with(0.02).value();
  CHECK(table.rows() == 98);
  CHECK(table.left_out.text().starts_with("2 lines left out: 2 unreadable (line 100: "));
  CHECK(with(0.019).error().message.starts_with(
      path +
      ": 2 lines cannot be read (2 %), more than dataset.skip_bad = 0.019 allows; the first: " +
      path + ":100: "));
  const std::string svm = directory.write("a.svm", "1 1:2\n0 1:x\n0 2:3\n");
  CHECK_FALSE(read_libsvm(svm, 0).has_value());
  CHECK(read_libsvm(svm, 0, {.skip_bad = 0.5}).value().labels ==
        std::vector<std::string>{"1", "0"});
}

TEST_CASE("tables: what is wrong is said in one line, whatever the file holds") {
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", "x,y\n1,a\n\"2\n3\x1b[31m\",b\n");
  const std::string message =
      path +
      ":3: column \"x\": \"2?3?[31m\" is not a number; mend it, or list the column in "
      "dataset.categorical";
  CHECK(read_raw(path, {.kind = "csv"}).error().message == message);
  const InputSchema schema{.shape = {1, 1, 1}, .columns = {{.name = "x"}}, .classes = {"a", "b"}};
  CHECK(read_raw_as(path, schema, {.kind = "csv"}, Unknown::Refuse).error().message ==
        message.substr(0, message.find(';')));
}

TEST_CASE("tables: lines that are no samples are said") {
  const std::string again = "the line of names comes again, as where files were joined; remove it";
  CHECK(read("x,y\n1,a\nx,y\n2,b\n") == ":3: " + again);
  CHECK(read("c,y\nr,a\ng,b\nc,y\n", {.header = true}) == ":4: " + again);
  CHECK(read("r,a\ng,b\nr,a\n", {.header = false}) == " | \"r\" -> a | \"g\" -> b | \"r\" -> a ");
  const std::string title =
      "; if it is a title, remove it, and if it holds names, add those that are missing";
  CHECK(read("My report\nx,y\n1,a\n2,b\n") == ":1: 1 field above lines of 2" + title);
  CHECK(read("Report, May\nx,z,y\n1,2,a\n2,3,b\n") == ":1: 2 fields above lines of 3" + title);
  CHECK(read("Report,,\nx,z,y\n1,2,a\n2,3,b\n") == ":1: 1 field above lines of 3" + title);
  CHECK(read("x,y\n1,2,a\n2,3,b\n") == ":1: 2 fields above lines of 3" + title);  // R's row names
  CHECK(read(",,a\n1,2,b\n", {.header = false}) == "  |   -> a | 1 2 -> b ");
  // Separators at the ends of lines.
  const std::string ends =
      "the last field is empty in each line, so it is no label; remove the separator at the end of "
      "the lines, or name the label's column in dataset.label_column";
  CHECK(read("x,y,\n1,a,\n2,b,\n") == ":1: " + ends);
  CHECK(read("1,a,\n2,b,\n") == ":1: " + ends);
  CHECK(read("x,y,\n1,a,\n", {.label_column = "y"}) == "x column 2 | 1  -> a ");
  CHECK(read("x,y\n1,a,\n2,b,\n") ==
        ":2: 3 fields; the first line has 2; remove the separator at the end of the line");
}

TEST_CASE("tables: .txt is LIBSVM or CSV by its first line") {
  const TempDirectory directory;
  const auto kind = [&](const std::string& text) {
    return kind_of(directory.write("a.txt", text)).value();
  };
  CHECK(kind("1 1:0.5 3:2\n") == "libsvm");
  CHECK(kind("# note\n\n-1\n") == "libsvm");
  CHECK(kind("1:0.5 3:2\n") == "libsvm");
  CHECK(kind("x,y\n1,a\n") == "csv");
  CHECK(kind("1 2 3\n") == "csv");
  // Times of a day are no entries.
  CHECK(kind("08:15 12\n09:30 13\n") == "csv");
  CHECK(kind("10:15\n10:30\n") == "csv");
  CHECK(kind("12:30:05 1.5\n") == "csv");
  CHECK(kind("1700000000 10:15\n1700000060 10:16\n") == "csv");
  CHECK(kind("1 10:15\n2026-11-26 10:30\n") == "csv");
  CHECK(kind("1 10:15 12:30\n1 3:0.5\n") == "libsvm");
  CHECK(kind("a b\n") == "csv");
}

}  // namespace rubato::train
