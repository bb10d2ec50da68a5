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
        ":3: the text is not UTF-8 from here on; set dataset.encoding");
}

TEST_CASE("tables: encodings are found, and said") {
  const std::string table = "x;y\n1;caf\xE9\n";
  CHECK(read(table) == "x | 1 -> caf\xC3\xA9 (separator \";\"; encoding WINDOWS-1252)");
  CHECK(read("x,y\n1,\x80\x93\n") == "x | 1 -> \xE2\x82\xAC\xE2\x80\x9C (encoding WINDOWS-1252)");
  CHECK(read("x,y\n1,caf\xE9\n2,ol\xE9\n3,\x81\n") ==
        "x | 1 -> caf\xC3\xA9 | 2 -> ol\xC3\xA9 | 3 -> \xC2\x81 (encoding ISO-8859-1)");
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
        ":2: column \"x\": \"N/A\" is not a number (if it stands for no value, set dataset.missing "
        "= [\"N/A\"])");
  for (const char* number : {"1.5D+01", "2.25d0", "-1D-3", "1.D+2", "+3.5D2", "4d+10"})
    CHECK(of(number).ends_with("(a number with Fortran's D; write it as 1.5e+01)"));
  CHECK(read("x;y\n0,5;a\n1.5;b\n", {.rows = {.text = {.decimal = ","}}}) ==
        ":3: column \"x\": \"1.5\" is not a number (a number with a decimal point; set "
        "dataset.decimal = \".\")");
  CHECK(read("x,y\n1,a\n=\"5\",b\n") ==
        ":3: column \"x\": \"=\"5\"\" is not a number (a number with other marks beside it; write "
        "it as 12, -0.5 or 1e-3)");
  // Quotes may have blanks around them.
  CHECK(read("x,z,y\n \"5\" ,1, \"a\"\n\t\"6\"\t, 2,\" b\" \n") == "x z | 5 1 -> a | 6 2 ->  b ");
  CHECK(read("x\ty\n \"5\" \t\"a\"\n\t\"b\"\n") == "x | 5 -> a |  -> b (separator tab)");
  for (const std::string code :
       {"12-34", "7b", "12D3", "A1", "red", "1.2.3", "18-25", "12 34", "18+"})
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
      ": 2 lines cannot be read (2.0 %), more than dataset.skip_bad = 0.019 allows; the first: " +
      path + ":100: "));
  const std::string svm = directory.write("a.svm", "1 1:2\n0 1:x\n0 2:3\n");
  CHECK_FALSE(read_libsvm(svm, 0).has_value());
  CHECK(read_libsvm(svm, 0, {.skip_bad = 0.5}).value().labels ==
        std::vector<std::string>{"1", "0"});
}

// `first`: lines above 30 sound ones of two numbers and a label.
std::string below(const std::string& first, const std::string& sound = "1.5,20,a\n2.5,30,b\n") {
  std::string text = first;
  for (int i = 0; i < 15; ++i) text += sound;
  return text;
}

TEST_CASE("tables: one record never decides a column") {
  const std::string names = "x,z,y\n";
  const auto refused = [](const std::string& line, const std::string& column,
                          const std::string& field) {
    return ":" + line + ": column \"" + column + "\": \"" + field + "\" is not a number";
  };
  const std::vector<Case> cases = {
      {below(names + "kg,cm,kind\n"), refused("2", "x", "kg")},
      {below(names + "[V],[A],-\n"), refused("2", "x", "[V]")},
      {below(names + "REAL,INTEGER,TEXT\n"), refused("2", "x", "REAL")},
      {below(names + ",m/s,\n"), refused("2", "z", "m/s")},
      {below(names + "?,counts,\n"), refused("2", "z", "counts")},
      {below(names + "mean,mean,a\n"), refused("2", "x", "mean")},
      {below(names + "3,none,a\n"), refused("2", "z", "none")},
      {below(names + "err,err,a\nerr,err,b\nerr,err,a\n"), refused("2", "x", "err")},
      {below(names + "1,2,a\n3,4,b\nx1,5,a\n"), refused("4", "x", "x1")},
      {below("x;z;y\nkg;cm;-\n", "1,5;20;a\n2,25;3,5;b\n"), refused("2", "x", "kg")},
      {below("x\tz\ty\nms\tV\t\n", "1\t20\ta\n2\t30\tb\n"), refused("2", "x", "ms")},
      // The first hundred have no value.
      {names +
           [] {
             std::string text;
             for (int i = 0; i < 120; ++i) text += ",1,a\n";
             return text + "oops,1,b\n" + below("");
           }(),
       refused("122", "x", "oops")},
  };
  for (const auto& [text, is] : cases) {
    CAPTURE(text);
    CHECK_MESSAGE(read(text).starts_with(is), read(text));
  }
  CHECK(read(cases[0].text).ends_with(". If the line holds units, remove it"));
  CHECK(read(cases[6].text).ends_with("set dataset.missing = [\"none\"])"));
  // A text among texts that are mostly no numbers is one of them; a number is not.
  CHECK(
      read("x,y\nred,a\nblue,b\n7,a\n", {.header = true}) ==
      ":4: column \"x\": \"7\" is a number, but most of its column are texts such as \"red\"; mend "
      "it, or list the column in dataset.categorical");
  CHECK(read("x,y\n7,a\nred,b\nblue,a\n", {.header = true})
            .starts_with(":2: column \"x\": \"7\" is a number, but"));
}

TEST_CASE("tables: one field never decides what decimals stand behind") {
  const std::string sound = "1,5;2,25;a\n0,5;12,125;b\n";
  const std::vector<Case> cases = {
      {below("x;z;y\nkg;cm;-\n", sound), ":2: column \"x\": \"kg\""},
      {below("x;z;y\n1.5;1,5;a\n", sound), ":2: column \"x\": \"1.5\""},
      {below("x;z;y\n1.500;1,5;a\n", sound), ":2: column \"x\": \"1.500\""},
      {below("x;z;y\n-0.5;-0.5;a\n", sound), ":2: column \"x\": \"-0.5\""},
      {below("x;z;y\nn.a.;1,5;a\n", sound), ":2: column \"x\": \"n.a.\""},
      {below("x;z;y\n1e3;NULL;a\n", sound), ":2: column \"z\": \"NULL\""},
      {below("x;z;y\n1,234.5;1;a\n", sound), ":2: column \"x\": \"1,234.5\""},
      {below("x;z;y\n1.5;1,5;a\n", "1.5;2;a\n2.5;3;b\n"), ":2: column \"z\": \"1,5\""},
  };
  for (const auto& [text, is] : cases) {
    CAPTURE(text);
    CHECK_MESSAGE(read(text).starts_with(is), read(text));
  }
}

TEST_CASE("tables: a quote that takes other lines in is refused with both line numbers") {
  const std::string open = ":3: a quote opens in line 3 and ";
  const std::string never = "is never closed, up to line ", closes = "closes in line ";
  const std::string names = "x,note,y\n1,ok,a\n";
  const std::vector<Case> cases = {
      {names + "2,\"oh,b\n3,ok,a\n4,ok,b\n", open + never + "5"},
      {names + "2,\"oh,b\n3,ok,a\n4,ok,b", open + never + "5"},
      {names + "2,\"oh,b\n3,\"ok\",a\n", open + closes + "4 with text behind it"},
      {names + "2,\"oh,b\n3,ok\",a\n4,ok,b\n", open + closes + "4, and 2 of these lines look"},
      {names + "2,\"oh,b\n3,ok,a\n4,ok,b\n5,end\",a\n", open + closes + "6, and 4 of these lines"},
      {names + "2,\"oh,b\n3,so \"\"so\"\",a\n4,end\",b\n", open + closes + "5, and 3 of"},
      {names + "2,oh,\"b\n3,ok,a\n4,ok,b\"\n", open + closes + "5, and 3 of"},
      {names + "\"2,oh,b\n3,ok,a\n4\",ok,b\n", open + closes + "5, and 3 of"},
      {"x;note;y\n1;ok;a\n2;\"oh;b\n3;ok;a\n4;end\";b\n5;ok;a\n", open + closes + "5, and 3 of"},
      {"x\tnote\ty\n1\tok\ta\n2\t\"oh\tb\n3\tok\ta\n", open + never + "4"},
      {names + "2,\"say \\\"hi\\\"\",a\n", ":3: a quote closes with text behind it; quotes within"},
      {"x,note,y\n\"1,ok,a\n2,ok,b\n3,ok\",a\n4,ok,b\n",
       ":2: a quote opens in line 2 and closes in line 4"},
      {"x;note;y\n\"1;ok;a\n2;ok;b\n3;ok;a\n", ":2: a quote opens in line 2 and " + never + "4"},
  };
  for (const auto& [text, is] : cases) {
    CAPTURE(text);
    CHECK_MESSAGE(read(text).starts_with(is), read(text));
  }
  // Lines of one text are no samples.
  for (const char* note : {"a\nb", "Hello,\nyou, there", "1,2\n3", "first\n2, second, third\nend",
                           "a,b\nc,d\ne,f", "\n\n", "x\n,,,\ny", "cm\n(or m)"}) {
    CAPTURE(note);
    CHECK(read(names + "2,\"" + note + "\",b\n3,ok,a\n").find("a quote") == std::string::npos);
  }
}

TEST_CASE("tables: files joined with their byte-order marks") {
  const std::string mark = "\xEF\xBB\xBF", names = mark + "x,y\n", rows = "1,a\n2,b\n";
  const std::string again = "the line of names comes again, as where files were joined; remove it";
  const std::string is = "x | 1 -> a | 2 -> b | 1 -> a | 2 -> b ";
  const std::string said = "(1 byte-order mark within, as of joined files)";
  const std::vector<Case> cases = {
      {names + rows + mark + rows, is + said},
      {"x,y\n" + rows + mark + rows, is + said},
      {mark + names + rows + rows, is + said},
      {names + rows + rows + mark, is + said},
      {names + rows + mark + mark + rows, is + "(2 byte-order marks within, as of joined files)"},
      {names + rows + mark + "\n" + rows, is + said},
      {names + rows + names + rows, ":4: " + again},
      {mark + "x;y\r\n1;a\r\n2;b\r\n" + mark + "x;y\r\n1;a\r\n", ":4: " + again},
      {utf_16("x,y\n1,a\n2,b\n", true, true) + utf_16("1,a\n2,b\n", true, true),
       is + "(1 byte-order mark within, as of joined files; encoding UTF-16LE)"},
  };
  for (const auto& [text, wanted] : cases) {
    CAPTURE(text);
    CHECK_MESSAGE(read(text) == wanted, read(text));
  }
}

TEST_CASE("tables: a text that is no western one is never read as one") {
  const auto with = [](const std::string& words) { return read("x,y\n" + words); };
  const std::vector<std::string> foreign = {
      "1,\xCC\xEE\xF1\xEA\xE2\xE0\n2,\xD2\xF3\xEB\xE0\n",  // Windows-1251
      "1,\xED\xCF\xD3\xCB\xD7\xC1\n2,\xF4\xD5\xCC\xC1\n",  // KOI8-R
      "1,\x8C\xAE\xE1\xAA\xA2\xA0\n2,\x92\xE3\xAB\xA0\n",  // CP866
      "1,\xB1\xB1\xBE\xA9\n2,\xC9\xCF\xBA\xA3\n",          // GB18030
      "1,\xC4\xD0\n2,\xC5\xAE\n",                          // a man, a woman
      "1,\xA5\x5F\xA8\xCA\n2,\xB0\xAA\xB6\xAF\n",          // BIG5
      "1,\x93\x8C\x8B\x9E\n2,\x91\xE5\x8D\xE3\n",          // Shift-JIS
      "1,\x83\x65\x83\x58\x83\x67\n2,a\n",                 // and katakana
      "1,\xBC\xAD\xBF\xEF\n2,\xBA\xCE\xBB\xEA\n",          // EUC-KR
      "1,\xC1\xE8\xDE\xED\xE1\n2,\xD0\xDC\xF4\xF1\xE1\n",  // Windows-1253
      "1,\xE4\xF0\xEE\n2,\xEC\xE0\n",                      // of them two letters
      "1,M\x81nchen\n2,K\x94ln\n",                         // CP850
  };
  for (const std::string& words : foreign) {
    CAPTURE(words);
    CHECK_MESSAGE(
        with(words).starts_with(":2: the text is no UTF-8, and no western one from its looks; set "
                                "dataset.encoding, such as \"WINDOWS-1251\""),
        with(words));
  }
  CHECK(read("x,y\n" + foreign[0], {.rows = {.text = {.encoding = "WINDOWS-1251"}}}) ==
        "x | 1 -> \u041C\u043E\u0441\u043A\u0432\u0430 | 2 -> \u0422\u0443\u043B\u0430 (encoding "
        "WINDOWS-1251)");
  const std::vector<std::string> western = {
      "1,M\xFCnchen\n2,K\xF6ln\n",
      "1,p\xE4\xE4\n2,m\xE4\xE4r\xE4\n",            // Finnish
      "1,\xE9t\xE9\n2,cr\xE9\xE9\n",                // French
      "1,\xC5rhus\n2,\xD8\n",                       // Danish
      "1,20 \xB0\x43\n2,5 \xB5m\n",                 // units
      "1,\x84\xDC\x62ung\x93\n2,l\x92\xE9t\xE9\n",  // in quotes
      "1,\xBFQu\xE9?\n2,\xA1S\xED!\n",              // Spanish
      "1,10 \x80\n2,5\x96\x37\n",                   // an amount, a span
      "1,col\xB7lecci\xF3\n2,W/m\xB2K\n",
      "1,\xA3\n2,\xA3\xA3\n3,\xA3\xA3\xA3\n",  // how dear
      "1,\xA7\xA7 5\n2,\x80\x80\n",
  };
  for (const std::string& words : western) {
    CAPTURE(words);
    CHECK_MESSAGE(with(words).ends_with("(encoding WINDOWS-1252)"), with(words));
  }
}

TEST_CASE("tables: what is wrong is said in one line, whatever the file holds") {
  const TempDirectory directory;
  const std::string path = directory.write("a.csv", "x,y\n1,a\n\"2\n3\x1b[31m\",b\n");
  const std::string message =
      path +
      ":3: column \"x\": \"2?3?[31m\" is not a number; mend it, or list the column in "
      "dataset.categorical; its quotes go on to line 4";
  CHECK(read_raw(path, {.kind = "csv"}).error().message == message);
  const InputSchema schema{.shape = {1, 1, 1}, .columns = {{.name = "x"}}, .classes = {"a", "b"}};
  CHECK(read_raw_as(path, schema, {.kind = "csv"}, Unknown::Refuse).error().message ==
        message.substr(0, message.find(';')) + "; its quotes go on to line 4");
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
