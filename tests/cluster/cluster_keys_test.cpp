// The rows of the cluster file's keys: the document shows them, and they agree with the reader.
#include "cluster/cluster_keys.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

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
