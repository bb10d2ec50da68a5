// The rows of the cluster file's keys: the document shows them, and they agree with the reader.
#include "cluster/cluster_keys.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.hpp"

namespace rubato::cluster {
namespace {

constexpr const char* kDocument = RUBATO_SOURCE_DIR "/docs/cluster-file.md";
const std::string kBegin = "<!-- keys: ";
const std::string kEnd = "<!-- end of keys -->\n";

// The document with the tables of the program.
std::string with_tables(std::string text) {
  for (const KeySection& section : key_sections()) {
    CAPTURE(section.name);
    const auto begin = text.find(kBegin + section.name + " -->");
    REQUIRE(begin != text.npos);
    const auto end = text.find(kEnd, begin);
    REQUIRE(end != text.npos);
    text.replace(begin, end + kEnd.size() - begin, markdown_table(section));
  }
  return text;
}

TEST_CASE("keys: docs/cluster-file.md has the tables that `rubato settings --markdown` prints") {
  const auto text = read_file(kDocument);
  REQUIRE(text.has_value());
  const std::string expected = with_tables(*text);
  if (std::getenv("RUBATO_REWRITE")) std::ofstream(kDocument) << expected;
  const auto document = read_file(kDocument);
  REQUIRE(document.has_value());
  REQUIRE_MESSAGE(*document == expected, "run this test with RUBATO_REWRITE=1");
  std::size_t tables = 0;
  for (auto at = text->find(kBegin); at != text->npos; at = text->find(kBegin, at + 1)) ++tables;
  CHECK(tables == key_sections().size());
}

TEST_CASE("keys: each has a name of its own, a type and a meaning") {
  for (const KeySection& section : key_sections()) {
    std::set<std::string> names;
    for (const Key& key : section.keys) {
      CAPTURE(key.name);
      CHECK(names.insert(key.name).second);
      CHECK_FALSE(key.valid.empty());
      CHECK_FALSE(key.fallback.empty());
      CHECK_FALSE(key.meaning.empty());
    }
  }
}

// A file with this value of a key, in the section where the key belongs.
std::string file_with(const KeySection& section, const Key& key, const std::string& value) {
  const std::string_view form = section.title.starts_with("[[") ? "[[{}]]\n"
                                : section.name == kBoxesSection ? "[{}]\n"
                                                                : "";
  return fmt::format(fmt::runtime(form), section.name) + fmt::format("{} = {}\n", key.name, value);
}

TEST_CASE("keys: none takes a control character, and the line names key and character") {
  constexpr std::array<std::pair<const char*, const char*>, 8> kHostile{{{"\\n", "U+000A"},
                                                                         {"\\r", "U+000D"},
                                                                         {"\\t", "U+0009"},
                                                                         {"\\u0000", "U+0000"},
                                                                         {"\\u001b", "U+001B"},
                                                                         {"\\u007f", "U+007F"},
                                                                         {"\\u0085", "U+0085"},
                                                                         {"\\u2028", "U+2028"}}};
  std::size_t keys = 0;
  for (const KeySection& section : key_sections())
    for (const Key& key : section.keys) {
      ++keys;
      for (const auto& [escape, name] : kHostile)
        for (const char* form : {"\"a{}END\"", "[\"a\", \"b{}END\"]"}) {
          const std::string text = file_with(section, key, fmt::format(fmt::runtime(form), escape));
          CAPTURE(text);
          const bool catalog = section.title.ends_with("of the catalog");
          const Error error = catalog ? parse_catalog(text, "edge.toml").error()
                                      : parse_cluster(text, "edge.toml", "").error();
          CHECK(error.code == ErrorCode::BadInput);
          CHECK(error.message.starts_with("edge.toml:"));
          CHECK(error.message.find(key.name) != std::string::npos);
          CHECK(error.message.find(name) != std::string::npos);
        }
    }
  CHECK(keys > 100);
}

TEST_CASE("keys: nodes can compare every shared key but those of the groups") {
  for (const KeySection& section : key_sections()) {
    if (section.name == kWorkersSection) continue;  // compared as the names of all workers
    for (const Key& key : section.keys) {
      CAPTURE(key.name);
      if (key.shared) CHECK(key.value);
    }
  }
}

}  // namespace
}  // namespace rubato::cluster
