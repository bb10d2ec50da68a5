// report/page_curves.hpp - learning curves as the pages' charts take them.
// Errors: none. Threads: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "base/json_fwd.hpp"
#include "base/run_record.hpp"

namespace rubato::report {

// Returns: at most `limit` indices below `count`, evenly spread, the first and last among them.
// Requires: limit >= 2.
std::vector<std::size_t> thinned(std::size_t count, std::size_t limit);

// Returns: arrays of a few hundred points: "seconds", "steps", "loss" and "accuracy" as measured,
// and "mean_loss" and "mean_accuracy", by which the target is judged.
OrderedJson curves_json(const std::vector<EvaluationRecord>& evaluations);

}  // namespace rubato::report
