// Texts of others: which characters are refused, how they are shown, and how they stand in CSV and
// JSON.
#include "base/utf8.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/text.hpp"

using namespace rubato;

namespace {

struct Named {
  std::string bytes;
  const char* name;
};

const std::vector<Named> kControls = {{std::string(1, '\0'), "U+0000"},
                                      {"\t", "U+0009"},
                                      {"\n", "U+000A"},
                                      {"\r", "U+000D"},
                                      {"\x1b", "U+001B"},
                                      {"\x1f", "U+001F"},
                                      {"\x7f", "U+007F"},
                                      {"\xc2\x80", "U+0080"},
                                      {"\xc2\x85", "U+0085"},
                                      {"\xc2\x9b", "U+009B"},
                                      {"\xe2\x80\xa8", "U+2028"},
                                      {"\xe2\x80\xa9", "U+2029"}};
const std::vector<Named> kUnseen = {
    {"\xc2\xad", "U+00AD"},     {"\xd8\x9c", "U+061C"},         {"\xe2\x80\x8b", "U+200B"},
    {"\xe2\x80\x8c", "U+200C"}, {"\xe2\x80\x8d", "U+200D"},     {"\xe2\x80\x8e", "U+200E"},
    {"\xe2\x80\x8f", "U+200F"}, {"\xe2\x80\xaa", "U+202A"},     {"\xe2\x80\xae", "U+202E"},
    {"\xe2\x81\xa0", "U+2060"}, {"\xe2\x81\xa6", "U+2066"},     {"\xe2\x81\xa9", "U+2069"},
    {"\xef\xbb\xbf", "U+FEFF"}, {"\xf3\xa0\x81\x81", "U+E0041"}};
const std::vector<std::string> kVisible = {
    "", "a b", "~", " ", "é", "字", "Ζεῦς", "\xc2\xa0", "\xf0\x9f\x8e\xbb"};

std::string any_bytes() {
  const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
      rc::gen::element<std::string>("é", "\x1b[2J", "\xe2\x80\xae", "\xf3\xa0\x80\x81", "\xff", "=",
                                    "\n", "\"", ",", "字"),
      rc::gen::string<std::string>()));
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

}  // namespace

TEST_CASE("texts: control characters and hidden ones are found by their number") {
  for (const Named& each : kControls) {
    CAPTURE(each.name);
    CHECK(control_in("ab" + each.bytes + "c") == each.name);
    CHECK(hidden_in("é" + each.bytes) == each.name);
  }
  for (const Named& each : kUnseen) {
    CAPTURE(each.name);
    CHECK_FALSE(control_in(each.bytes));
    CHECK(hidden_in("a" + each.bytes + "\x1b") == each.name);
  }
  for (const std::string& text : kVisible) {
    CAPTURE(text);
    CHECK_FALSE(hidden_in(text));
    CHECK(printable(text) == text);
  }
  CHECK(control_in("a\xff") == "the byte 0xff");
  CHECK(hidden_in("a\xe2\x80") == "the byte 0xe2");
}

TEST_CASE("texts: a mark stands for each character that is not shown") {
  CHECK(printable("é\x1b[2J\xe2\x80\xae"
                  "b\xff\n") == "é?[2J?b??");
  CHECK(printable("a\n\tb\x1b", "\n\t") == "a\n\tb?");
  CHECK(fail(ErrorCode::Refused, "x\xc2\x9b\xe2\x80\x8by").value().message == "x??y");
  CHECK(rc::check("printable", [] {
    const std::string text = any_bytes();
    const std::string shown = printable(text);
    RC_ASSERT(!hidden_in(shown));
    RC_ASSERT(printable(shown) == shown);
    RC_ASSERT(hidden_in(text) || shown == text);
  }));
}

TEST_CASE("texts: JSON on a terminal has escapes, and the same values") {
  const nlohmann::json value = {
      {"\xe2\x80\xae"
       "a",
       "\x1b\x7f\xc2\x9b\xf3\xa0\x81\x81é\n"}};
  const std::string shown = escaped_json(value.dump(2));
  CHECK(printable(shown, "\n") == shown);
  CHECK(shown.find("é") != shown.npos);
  CHECK(nlohmann::json::parse(shown) == value);
}
