// tests/cli/sample.hpp - synthetic comparisons: figures that look like real ones, no training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/comparison.hpp"

namespace rubato::cli {

struct SampleOptions {
  std::vector<std::string> models{"bsp", "asp", "ssp", "adsp"};
  std::size_t seeds = 3;
  std::size_t workers = 3;
};

// The i-th model is faster than the one before; "adsp" tunes a rate.
Comparison sample_comparison(const SampleOptions& options = {});

}  // namespace rubato::cli
