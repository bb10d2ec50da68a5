#include "bench/path_rows.hpp"

#include <algorithm>
#include <cmath>

#include "base/time.hpp"

namespace rubato::bench {

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

void latency_rows(Rows& rows, const std::string& name, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto add = [&](const char* which, double part) {
    const auto at = std::lround(part * static_cast<double>(seconds.size() - 1));
    rows.add({.name = name + ", " + which,
              .value = seconds[static_cast<std::size_t>(at)] * 1e6,
              .unit = "us"});
  };
  add("median time", 0.5);
  add("99th percentile", 0.99);
}

}  // namespace rubato::bench
