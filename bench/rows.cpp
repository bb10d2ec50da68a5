#include "bench/rows.hpp"

#include <fmt/format.h>

#include <fstream>

namespace rubato::bench {
namespace {

// JSON text of `text`; names and units here hold nothing else that JSON would want escaped.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string to_json(const Row& row) {
  const bool measured = !row.peer.empty() && row.peer_value > 0;
  return fmt::format(
      R"({{"name": {}, "value": {:.9g}, "unit": {}, "peer": {}, "peer_value": {}, "ratio": {}, )"
      R"("bar": {}}})",
      quoted(row.name), row.value, quoted(row.unit), row.peer.empty() ? "null" : quoted(row.peer),
      measured ? fmt::format("{:.9g}", row.peer_value) : "null",
      measured ? fmt::format("{:.9g}", row.value / row.peer_value) : "null",
      row.bar.empty() ? "null" : quoted(row.bar));
}

}  // namespace

RunOptions parse_options(int argc, char** argv) {
  RunOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" && i + 1 < argc) {
      options.json = argv[++i];
    } else if (word == "--quick") {
      options.quick = true;
    } else if (word == "--smoke") {
      options.smoke = true;
    } else {
      options.others.push_back(word);
    }
  }
  return options;
}

Result<void> report(const RunOptions& options, const std::vector<Row>& rows) {
  std::string json;
  for (const Row& row : rows) {
    fmt::print("{:<58} {:>10.4g} {}", row.name, row.value, row.unit);
    if (row.peer_value > 0)
      fmt::print("   {} {:.4g}, ratio {:.3f}", row.peer, row.peer_value,
                 row.value / row.peer_value);
    fmt::print("{}\n", row.bar.empty() ? "" : "   bar " + row.bar);
    json += (json.empty() ? "[\n " : ",\n ") + to_json(row);
  }
  if (options.json.empty()) return {};
  std::ofstream file(options.json);
  file << (json.empty() ? "[" : json) << "\n]\n";
  if (!file.flush()) return fail(ErrorCode::Io, "cannot write --json " + options.json);
  return {};
}

}  // namespace rubato::bench
