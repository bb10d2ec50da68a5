#include "bench/path_rows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/time.hpp"

namespace rubato::bench {

void Rows::add(const Row& row) {
  const std::string peer = row.peer_value ? fmt::format("{:.4g}", *row.peer_value) : "";
  const std::string ratio =
      row.peer_value ? fmt::format("{:.3f}", row.value / *row.peer_value) : "";
  fmt::print("{:<42} {:>9.4g} {:<5} {:<28} {:>9} {:>7} {}\n", row.name, row.value, row.unit,
             row.peer, peer, ratio, row.bar);
  std::fflush(stdout);
  rows_.push_back(row);
}

bool Rows::write_json(const std::string& path) const {
  std::ofstream out(path);
  out << "[\n";
  for (const Row& row : rows_) {
    const auto number = [](std::optional<double> value) {
      return value ? fmt::format("{:.6g}", *value) : "null";
    };
    const auto ratio = row.peer_value ? std::optional(row.value / *row.peer_value) : std::nullopt;
    out << fmt::format(
        R"(  {{"name": "{}", "value": {:.6g}, "unit": "{}", "peer": "{}", "peer_value": {}, )"
        R"("ratio": {}, "bar": "{}"}}{})",
        row.name, row.value, row.unit, row.peer, number(row.peer_value), number(ratio), row.bar,
        &row == &rows_.back() ? "\n" : ",\n");
  }
  out << "]\n";
  return out.good();
}

std::vector<double> in_turns(int turns, const std::vector<std::function<void()>>& works) {
  std::vector<std::vector<double>> seconds(works.size());
  for (int turn = -1; turn < turns; ++turn)
    for (std::size_t i = 0; i < works.size(); ++i) {
      const Instant began = steady_now();
      works[i]();
      if (turn >= 0) seconds[i].push_back((steady_now() - began).seconds());
    }
  std::vector<double> medians;
  for (auto& each : seconds) {
    std::sort(each.begin(), each.end());
    medians.push_back(each[each.size() / 2]);
  }
  return medians;
}

}  // namespace rubato::bench
