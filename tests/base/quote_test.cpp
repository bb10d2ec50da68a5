// Texts of others in other languages: their own readers find the same texts
// (tests/base/quoting.py).
#include "base/quote.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/rng.hpp"
#include "base/utf8.hpp"
#include "tests/temp_directory.hpp"

using namespace rubato;
using namespace std::string_literals;

namespace {

// What is often mistaken for the language around it.
const std::vector<std::string>& hard_texts() {
  static const std::vector<std::string> kTexts = {
      "",
      " ",
      "plain",
      "true",
      "No",
      "null",
      "~",
      "12",
      "0x1F",
      "1e3",
      "12:30:45",
      "2026-11-29",
      ".inf",
      "a: b",
      "a #b",
      "- a",
      "? a",
      "* a",
      "&a",
      "!a",
      "%a",
      "@a",
      "`a`",
      "[a, b]",
      "{a: b}",
      "a\nb",
      "a\r\nb",
      "a\tb",
      "\"a\"",
      "'a'",
      "it's",
      "'''",
      "\"\"\"",
      "a\\b",
      "a\\",
      "\\u0041",
      "\\\"",
      "$HOME",
      "$(id)",
      "${x:-y}",
      "!!",
      "a;b",
      "a|b&c>d<e",
      "--option",
      "\"; rm -rf /; echo \"",
      "END",
      "END\nEND2",
      "=1+1",
      "@SUM(A1)",
      "a,b",
      "a;\"b\"",
      "<script>alert(1)</script>",
      "</script><b>",
      "<!-- a",
      "]]>",
      "&amp;",
      "&#60;",
      "a\" onclick=\"b",
      "100 % & #1_a^2~{x}",
      "[2cm]",
      "*",
      "a--b---c``d''e",
      "\\input{a}",
      "Größe",
      "\u4E2D\u6587",
      "\u0420\u0443\u0441",
      "\U0001F600",
      "\u0085x",
      "\u2028x\u2029",
      "\u202Egnp",
      "\uFEFFx",
      "\uFFFE\uFFFF",
      "\U000E0041",
      "\x1b[2J",
      "\x7f",
      "\x01",
      "d\xE9p\xF4t",
      "\xFF\xFE",
      "\xC3",
      "\xED\xA0\x80",
  };
  return kTexts;
}

std::vector<std::string> texts() {
  std::vector<std::string> all = hard_texts();
  const std::vector<std::string>& parts = hard_texts();
  Rng rng(59);
  for (int i = 0; i < 400; ++i) {
    std::string text;
    for (std::uint64_t n = rng.below(6); n > 0; --n) {
      if (rng.below(2) == 0)
        text += parts[rng.below(parts.size())];
      else
        text += static_cast<char>(1 + rng.below(255));  // no text of a shell holds a zero
    }
    all.push_back(text);
  }
  return all;
}

// As JSON, TOML and YAML have it.
std::string in_unicode(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    shown += is_utf8(character) ? character : "\uFFFD";
  }
  return shown;
}

struct Written {
  std::string toml, yaml = "texts:\n", words, csv, json, html, script, latex, shell, here, systemd;
};

}  // namespace

TEST_CASE("quotes: the reader of each language finds the same text") {
  const TempDirectory directory;
  const std::vector<std::string> all = texts();
  Written to;
  Json expected = Json::array(), shown = Json::array();
  std::string bytes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& text = all[i];
    expected.push_back(in_unicode(text));
    shown.push_back(printable(text));
    bytes += text + '\0';
    to.toml += fmt::format("t{} = {}\n", i, toml_text(text));
    to.yaml += fmt::format("  - {}\n", yaml_text(text));
    to.words += fmt::format("  - {}: {}\n", yaml_word(text), yaml_word(text));
    to.csv += fmt::format("{},{}\n", csv_field(text), i);
    to.json += json_text(Json(text)) + "\n";
    to.html += fmt::format("<p title=\"{0}\">{0}</p>\n", html_text(text));
    to.script += fmt::format("<script>{}</script>\n", script_json(json_text(Json(text))));
    to.latex += fmt::format("{} & {} \\\\\n", latex_text(text), i);
    to.shell += fmt::format("printf '%s\\0' {}\n", shell_word(text));
    to.here += fmt::format("cat {}printf '\\0'\n", here_document(text));
    to.systemd += fmt::format("T{}={}\n", i, environment_value(text));
  }
  to.shell += fmt::format("printf '%s\\0' {} >/dev/null\n", shell_words(all));
  directory.write("expected.json", json_text(expected));
  directory.write("shown.json", json_text(shown));
  directory.write("bytes", bytes);
  directory.write("a.toml", to.toml);
  directory.write("a.yaml", to.yaml + "words:\n" + to.words);
  directory.write("a.csv", to.csv);
  directory.write("a.json", to.json);
  directory.write("a.html", to.html + to.script);
  directory.write("a.tex", to.latex);
  directory.write("a.sh", to.shell);
  directory.write("here.sh", to.here);
  directory.write("a.env", to.systemd);
  CHECK(std::system(fmt::format("{} {}/tests/base/quoting.py {}", RUBATO_PYTHON3, RUBATO_SOURCE_DIR,
                                directory.path())
                        .c_str()) == 0);
}

TEST_CASE("quotes: what needs none has none") {
  CHECK(yaml_word("edge-3_b.toml") == "edge-3_b.toml");
  for (const char* other : {"true", "Off", "n", "12", "", "a: b", "a b", "-a", "Größe"})
    CHECK(yaml_word(other).starts_with('"'));
  CHECK(toml_text("a/b c.csv") == "\"a/b c.csv\"");
  CHECK(toml_text("a\tb") == "\"a\\u0009b\"");
  CHECK(yaml_text("a\tb") == "\"a\\x09b\"");
  CHECK(shell_word("pi@192.168.1.11") == "pi@192.168.1.11");
  CHECK(shell_word("my 'edge' $box.toml") == R"('my '\''edge'\'' $box.toml')");
  CHECK(html_text("a < b") == "a &lt; b");
  CHECK(latex_text("edge") == "edge");
}

TEST_CASE("quotes: a field of CSV is shown, quoted, and no formula") {
  CHECK(csv_field("a b") == "a b");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"x\"") == "\"say \"\"x\"\"\"");
  CHECK(csv_field(" a") == "\" a\"");
  CHECK(csv_field("a\x1b[2J\nb") == "a?[2J?b");
  for (const char* formula : {"=1+1", "=HYPERLINK(A1)", "+A1", "-2+3", "@SUM(A1)", "=-1", "＝A1"}) {
    CAPTURE(formula);
    CHECK(csv_field(formula) == std::string("'") + formula);
  }
  CHECK(csv_field("=A1,B1") == "\"'=A1,B1\"");
  for (const char* plain :
       {"-1", "+1", "-1.5e-3", "+0.25", "+", "-", "=", "@", "a=b", "<=50K", "1-2"}) {
    CAPTURE(plain);
    CHECK(csv_field(plain) == plain);
  }
}

TEST_CASE("quotes: bytes that are no UTF-8 never stop JSON") {
  for (const std::string& text : {"\xE9"s, "a\xFF"s, "\xC3"s, "\xED\xA0\x80"s, "\xF4\x90\x80\x80"s,
                                  "d\xE9p\xF4t/a.toml"s, "\x80\x80"s, "\xC0\xAF"s}) {
    CAPTURE(text);
    Json json;
    json["path"] = text;
    json[text] = 1;
    json["list"] = {text, {{"deep", text}}};
    const std::string written = json_text(json, 2);
    CHECK(is_utf8(written));
    CHECK(Json::parse(written).at("path").get<std::string>() == in_unicode(text));
  }
}
