// report/results_json.hpp - results.json: every run in numbers, for programs.
// The same comparison gives the same bytes. NaN and infinity are null.
#pragma once

#include <string>

#include "report/comparison.hpp"

namespace rubato::report {

// Returns: one JSON object, indented by two, ending in a newline. Bytes that are not UTF-8 are
// replaced by U+FFFD.
std::string results_json(const Comparison& comparison);

}  // namespace rubato::report
