#include "tests/rules/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace rubato::rules {
namespace {

constexpr std::size_t kLineLengthMax = 100;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string first_folder(std::string_view path) {
  return std::string(path.substr(0, path.find('/')));
}

bool is_product(const SourceFile& file) {
  const std::string module = first_folder(file.path);
  return module != "tests" && module != "bench";
}

struct Include {
  std::size_t line;
  std::string target;
  bool quoted;
};

std::vector<Include> includes_of(const SourceFile& file) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  std::vector<Include> found;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(file.text)) {
    ++number;
    std::match_results<std::string_view::const_iterator> match;
    if (std::regex_search(line.begin(), line.end(), match, kInclude)) {
      found.push_back({number, match[2].str(), match[1].str() == "\""});
    }
  }
  return found;
}

std::string at(const SourceFile& file, std::size_t line, std::string_view what) {
  return fmt::format("{}:{}: {}", file.path, line, what);
}

// What the code of `file`, comments and literals aside, must not contain.
void find_words(const SourceFile& file, const std::string& code, const std::regex& words,
                std::string_view why, Violations& out) {
  std::size_t number = 0;
  for (const std::string_view line : lines_of(code)) {
    ++number;
    std::match_results<std::string_view::const_iterator> match;
    if (std::regex_search(line.begin(), line.end(), match, words)) {
      out.push_back(at(file, number, fmt::format("'{}': {}", match.str(), why)));
    }
  }
}

}  // namespace

Violations include_arrows(const SourceFile& file) {
  static const std::set<std::string> kProduct = {
      "base", "train", "sync", "proto", "server", "worker", "cluster", "emulation", "cli"};
  static const std::map<std::string, std::set<std::string>> kArrows = {
      {"base", {}},
      {"train", {"base"}},
      {"sync", {"base"}},
      {"proto", {"base"}},
      {"server", {"sync", "proto", "base"}},
      {"worker", {"train", "sync", "proto", "base"}},
      {"cluster", {"server", "worker", "train", "sync", "proto", "base"}},
      {"emulation", {"cluster", "server", "worker", "train", "sync", "proto", "base"}},
      {"cli", kProduct},
      {"bench", kProduct},
      {"tests", kProduct},
  };
  // Beyond the arrows: one file of a folder.
  static const std::map<std::string, std::set<std::string>> kFiles = {
      {"proto", {"sync/words.hpp"}},
  };
  const auto files = kFiles.find(first_folder(file.path));
  const std::string from = first_folder(file.path);
  Violations out;
  for (const Include& include : includes_of(file)) {
    const std::string to = first_folder(include.target);
    if (!kArrows.contains(to) || include.target.find('/') == std::string::npos) {
      if (include.quoted && !include.target.ends_with("_generated.h")) {
        out.push_back(at(file, include.line,
                         fmt::format("\"{}\" is not a path from the root", include.target)));
      }
      continue;
    }
    if (!include.quoted) {
      out.push_back(
          at(file, include.line, fmt::format("<{}> is ours: use quotes", include.target)));
    }
    const bool alone = files != kFiles.end() && files->second.contains(include.target);
    if (to != from && !alone && !kArrows.at(from).contains(to)) {
      out.push_back(at(file, include.line,
                       fmt::format("{} may not include {} ({})", from, to, include.target)));
    }
  }
  return out;
}

Violations library_owners(const SourceFile& file) {
  struct Owner {
    std::string_view library;
    std::regex header;
    std::regex wrapper;
  };
  static const std::array<Owner, 6> kOwners = {{
      {"ZeroMQ", std::regex(R"(zmq\w*\.hp*)"), std::regex(R"(proto/zmq_transport\.cpp)")},
      {"FlatBuffers", std::regex(R"(flatbuffers/.*|.*_generated\.h)"),
       std::regex(R"(proto/codec\.cpp)")},
      {"BLAS and oneDNN", std::regex(R"((openblas/)?cblas.*|.*dnnl.*)"),
       std::regex(R"(train/cpu/.*)")},
      {"CUDA", std::regex(R"((cuda|cublas|cudnn|curand).*)"), std::regex(R"(train/cuda/.*)")},
      {"toml++", std::regex(R"(toml\+\+/.*|toml\.hpp)"), std::regex(R"(base/config\.cpp)")},
      {"CLI11", std::regex(R"(CLI/.*)"), std::regex(R"(cli/.*)")},
  }};
  Violations out;
  if (!is_product(file)) return out;
  for (const Include& include : includes_of(file)) {
    for (const Owner& owner : kOwners) {
      if (std::regex_match(include.target, owner.header) &&
          !std::regex_match(file.path, owner.wrapper)) {
        out.push_back(
            at(file, include.line,
               fmt::format("{} belongs to its wrapper alone ({})", owner.library, include.target)));
      }
    }
  }
  return out;
}

Violations pure_cores(const SourceFile& file) {
  static const std::regex kCore(
      R"(sync/.*|server/(?!\w*loop).*|worker/(\w+_core|parameter_gather|local_trainer)\.\w+)");
  static const std::set<std::string> kImpure = {
      "atomic",      "chrono", "condition_variable", "ctime",
      "fstream",     "future", "iostream",           "mutex",
      "random",      "thread", "unordered_map",      "unordered_set",
      "shared_mutex"};
  static const std::regex kClock(R"(\b(steady_now|getenv)\b)");
  Violations out;
  if (!std::regex_match(file.path, kCore)) return out;
  for (const Include& include : includes_of(file)) {
    if (kImpure.contains(include.target)) {
      out.push_back(at(file, include.line, fmt::format("a core is pure: no <{}>", include.target)));
    }
  }
  find_words(file, blank_comments_and_literals(file.text), kClock, "a core is told the time", out);
  return out;
}

Violations line_lengths(const SourceFile& file) {
  Violations out;
  const std::vector<std::string_view> lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto characters =
        static_cast<std::size_t>(std::count_if(lines[i].begin(), lines[i].end(), [](char c) {
          return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // not a UTF-8 continuation
        }));
    if (characters > kLineLengthMax) {
      out.push_back(
          at(file, i + 1, fmt::format("{} characters, at most {}", characters, kLineLengthMax)));
    }
  }
  return out;
}

Violations header_form(const SourceFile& file) {
  Violations out;
  if (!file.path.ends_with(".hpp")) return out;
  const std::vector<std::string_view> lines = lines_of(file.text);
  const std::string opening = "// " + file.path + " - ";
  if (lines.empty() || !lines[0].starts_with(opening) || lines[0].size() == opening.size()) {
    out.push_back(at(file, 1, fmt::format("a header begins with \"{}what it is\"", opening)));
  }
  if (std::find(lines.begin(), lines.end(), "#pragma once") == lines.end()) {
    out.push_back(fmt::format("{}: no #pragma once", file.path));
  }
  return out;
}

Violations banned_words(const SourceFile& file) {
  // Written in two halves, so that this file passes its own rule.
  static const std::regex kMarker(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X|HA"
      "CK)\\b");
  static const std::regex kAllocation(R"(\b(new|delete)\b)");
  static const std::regex kDeclared(R"(=\s*delete\b|\boperator\s+(new|delete)\b|<new>)");
  static const std::regex kClock(R"(\b(steady_clock|system_clock|high_resolution_clock)\b)");
  static const std::regex kGenerator(
      R"(\b(mt19937|random_device|default_random_engine|std::\w+_distribution|s?rand\())");
  static const std::regex kSleep(R"(\b(sleep_for|sleep_until|usleep|nanosleep)\b)");

  Violations out;
  find_words(file, file.text, kMarker, "finish it, or open an issue", out);
  const std::string code = blank_comments_and_literals(file.text);
  find_words(file, std::regex_replace(code, kDeclared, ""), kAllocation,
             "own memory by a value, a container or unique_ptr", out);
  if (file.path != "base/time.cpp") {
    find_words(file, code, kClock, "only base/time.cpp reads a clock", out);
  }
  if (file.path != "base/rng.cpp") {
    find_words(file, code, kGenerator, "use base/rng.hpp: the same numbers with every library",
               out);
  }
  if (first_folder(file.path) == "tests") {
    find_words(file, code, kSleep, "wait for the event, not for a time", out);
  }
  return out;
}

Violations test_names(const SourceFile& file) {
  static const std::regex kName(R"re(\bTEST_CASE\(\s*("[^)]*")\s*\))re");
  Violations out;
  const std::sregex_iterator end;
  for (std::sregex_iterator it(file.text.begin(), file.text.end(), kName); it != end; ++it) {
    if ((*it)[1].str().find(';') == std::string::npos) continue;
    out.push_back(
        fmt::format("{}: {}: a semicolon keeps this test from running", file.path, (*it)[1].str()));
  }
  return out;
}

Violations virtual_interfaces(const SourceFile& file) {
  static const std::set<std::string> kInterfaces = {"Transport", "Device", "CommitRule", "Gate",
                                                    "Tuner"};
  static const std::regex kToken(R"(\b(?:class|struct)\s+(\w+)|\bvirtual\b|[{};])");
  Violations out;
  if (!is_product(file)) return out;
  const std::string code = blank_comments_and_literals(file.text);
  std::vector<std::string>
      scopes;             // one entry an open brace: the class it opens, or the one around
  std::string announced;  // by `class X`, before its brace
  for (std::sregex_iterator it(code.begin(), code.end(), kToken), end; it != end; ++it) {
    const std::string token = it->str();
    const std::string around = scopes.empty() ? "" : scopes.back();
    if (token == "{") {
      scopes.push_back(announced.empty() ? around : announced);
      announced.clear();
    } else if (token == "}") {
      if (!scopes.empty()) scopes.pop_back();
    } else if (token == ";") {
      announced.clear();
    } else if (token == "virtual") {
      const auto line = std::count(code.begin(), code.begin() + it->position(), '\n') + 1;
      if (!kInterfaces.contains(around)) {
        out.push_back(at(file, static_cast<std::size_t>(line),
                         fmt::format("'{}' is not one of the agreed virtual interfaces", around)));
      }
    } else {
      announced = (*it)[1].str();
    }
  }
  return out;
}

Violations built_by_someone(const SourceFile& file, const std::vector<SourceFile>& lists) {
  static const std::regex kNoName("#.*|[()\"]");
  if (!file.path.ends_with(".cpp")) return {};
  for (const SourceFile& list : lists) {
    const std::string folder = list.path.substr(0, list.path.rfind('/') + 1);
    if (!file.path.starts_with(folder)) continue;
    std::istringstream words(std::regex_replace(list.text, kNoName, " "));
    const std::set<std::string> names(std::istream_iterator<std::string>(words), {});
    if (names.contains(file.path.substr(folder.size()))) return {};
  }
  return {fmt::format("{}: named by no CMakeLists.txt", file.path)};
}

std::string blank_comments_and_literals(std::string_view text) {
  std::string out(text);
  const auto blank = [&out](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, out.size()); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::size_t i = 0;
  while (i < text.size()) {
    std::size_t end = i + 1;
    if (text.substr(i, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
      blank(i, end);
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t close = text.find("*/", i + 2);
      end = close == text.npos ? text.size() : close + 2;
      blank(i, end);
    } else if (text.substr(i, 2) == "R\"") {
      const std::size_t open = std::min(text.find('(', i), text.size());
      const std::string close = ")" + std::string(text.substr(i + 2, open - i - 2)) + "\"";
      end = std::min(text.find(close, open), text.size());
      blank(i + 2, end);
      end = std::min(end + close.size(), text.size());
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') {
        end += text[end] == '\\' ? 2 : 1;
      }
      blank(i + 1, end);
      end = std::min(end + 1, text.size());
    }
    i = end;
  }
  return out;
}

}  // namespace rubato::rules
