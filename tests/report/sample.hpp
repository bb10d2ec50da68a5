// tests/report/sample.hpp - synthetic comparisons: figures that look like real ones, no training.
// And the workers of a small cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/comparison.hpp"

namespace rubato::report {

// For a cluster file: two workers, and one three times as slow.
inline constexpr const char* kFastAndSlow = R"(
[[workers]]
name = "fast"
count = 2
step_seconds = 0.1
[[workers]]
name = "slow"
step_seconds = 0.3
)";

struct SampleOptions {
  std::vector<std::string> models{"bsp", "asp", "ssp", "adsp"};
  std::size_t seeds = 3;
  std::size_t workers = 3;
};

// The i-th model is faster than the one before; "adsp" tunes a rate.
Comparison sample_comparison(const SampleOptions& options = {});

}  // namespace rubato::report
