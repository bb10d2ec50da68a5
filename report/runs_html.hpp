// report/runs_html.hpp - several run directories in one self-contained web page: a table, and the
// learning curves of every run and model in the same charts.
// Errors: none. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "report/run_comparison.hpp"

namespace rubato::report {

// Requires: `all` = side_by_side(runs).
std::string runs_html(const std::vector<NamedComparison>& runs, const SideBySide& all);

// "monday ADSP reached loss 0.45 first, in 8 min 40 s; tuesday BSP took 2.4 times as long."
std::string runs_headline(const SideBySide& all);

}  // namespace rubato::report
