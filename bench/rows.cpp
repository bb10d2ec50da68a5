#include "bench/rows.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <optional>

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

std::optional<double> ratio_of(const Row& row) {
  if (row.peer.empty() || row.peer_value <= 0) return std::nullopt;
  return row.value / row.peer_value;
}

std::string to_json(const Row& row) {
  const auto ratio = ratio_of(row);
  return fmt::format(
      R"({{"name": {}, "value": {:.9g}, "unit": {}, "peer": {}, "peer_value": {}, "ratio": {}, )"
      R"("bar": {}}})",
      quoted(row.name), row.value, quoted(row.unit), row.peer.empty() ? "null" : quoted(row.peer),
      ratio ? fmt::format("{:.9g}", row.peer_value) : "null",
      ratio ? fmt::format("{:.9g}", *ratio) : "null", row.bar.empty() ? "null" : quoted(row.bar));
}

}  // namespace

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

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

void print(const Row& row) {
  fmt::print("{:<58} {:>10.4g} {}", row.name, row.value, row.unit);
  if (const auto ratio = ratio_of(row))
    fmt::print("   {} {:.4g}, ratio {:.3f}", row.peer, row.peer_value, *ratio);
  fmt::print("{}\n", row.bar.empty() ? "" : "   bar " + row.bar);
  std::fflush(stdout);
}

Result<void> write_json(const std::string& path, const std::vector<Row>& rows) {
  if (path.empty()) return {};
  std::string json;
  for (const Row& row : rows) json += (json.empty() ? "[\n " : ",\n ") + to_json(row);
  std::ofstream file(path);
  file << (json.empty() ? "[" : json) << "\n]\n";
  if (!file.flush()) return fail(ErrorCode::Io, "cannot write --json " + path);
  return {};
}

Result<void> report(const RunOptions& options, const std::vector<Row>& rows) {
  for (const Row& row : rows) print(row);
  return write_json(options.json, rows);
}

}  // namespace rubato::bench
