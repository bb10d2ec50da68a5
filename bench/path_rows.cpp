#include "bench/path_rows.hpp"

#include <algorithm>

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

}  // namespace rubato::bench
