// What the reader of a cluster file says of a line that is no TOML.
#include "base/toml_hint.hpp"

#include <doctest/doctest.h>

#include <string>

#include "base/config.hpp"

namespace rubato {
namespace {

// Of a document with this line as its second.
std::string said_of(const std::string& line) {
  const auto parsed = Config::parse("seed = 1\n" + line + "\n[stop]\nmax_seconds = 5\n", "a.toml");
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().message.starts_with("a.toml:2: "));
  return parsed.error().message.substr(10);
}

TEST_CASE("TOML hint: a text without quotes is shown with them") {
  CHECK(said_of("kind = csv") == "a text needs quotes: kind = \"csv\"");
  CHECK(said_of("path = data/my file.csv   # ours") ==
        "a text needs quotes: path = \"data/my file.csv\"");
  CHECK(said_of("path = /data/a.csv") == "a text needs quotes: path = \"/data/a.csv\"");
  CHECK(said_of("name = two") == "a text needs quotes: name = \"two\"");
  CHECK(said_of("name = 3rd box") == "a text needs quotes: name = \"3rd box\"");
  CHECK(said_of("ignore = [id, name]") == "texts need quotes: ignore = [\"a\", \"b\"]");
  CHECK(said_of("name = \u201cp\u201d") == "quotes are straight in TOML: name = \"p\"");
  CHECK(said_of("name = \"p") == "the text of name has no \" at its end");
  CHECK(said_of("kind = \"mlp\" \"svm\"") ==
        "kind has more than one text; several are written [\"a\", \"b\"]");
  CHECK(said_of("path = \"C:\\data\\a.csv\"") ==
        "a \\ has a meaning of its own between \"; write /, or use ': path = 'C:\\data\\a.csv'");
  CHECK(said_of("path = \"C:\\users\\a.csv\"").ends_with("path = 'C:\\users\\a.csv'"));
}

TEST_CASE("TOML hint: numbers, yes and no, and the marks between") {
  CHECK(said_of("rate = 0,1") == "a number has a point between digits: rate = 0.1");
  CHECK(said_of("rate = .1") == "a number has a point between digits: rate = 0.1");
  CHECK(said_of("max_seconds = 20 s") == "a number has no unit: max_seconds = 20");
  CHECK(said_of("count = 2 workers") == "a number has no unit: count = 2");
  CHECK(said_of("open = True") == "yes is written open = true");
  CHECK(said_of("open = no") == "no is written open = false");
  CHECK(said_of("count: 2") == "write = between count and its value, not :");
  CHECK(said_of("count == 2") == "one = is enough: count = 2");
  CHECK(said_of("count =") == "count has no value");
  CHECK(said_of("count = # two") == "count has no value");
  CHECK(said_of("[model") == "the name of a section ends with ]: write [model]");
  CHECK(said_of("[[workers]") == "the name of a section ends with ]]: write [[workers]]");
  CHECK(said_of("a line of prose") == "a line is KEY = VALUE or [SECTION]");
}

TEST_CASE("TOML hint: where nothing better is known, the parser speaks") {
  CHECK(toml_hint("x = [1, 2", "a bracket is open") == "a bracket is open");
  CHECK(toml_hint("", "the end came early") == "the end came early");
  CHECK(toml_hint("# only words", "what is this") == "what is this");
}

}  // namespace
}  // namespace rubato
