// cli/table.hpp - the comparison as a table for a terminal of 120 columns or more than 100.
#pragma once

#include <string>
#include <vector>

#include "cli/comparison.hpp"

namespace rubato::cli {

// Returns: a line that says what was compared, a blank line, one row a model, a blank line and the
// headline. Figures are medians over the seeds (shares: means). ASCII but for names from outside.
std::string comparison_table(const Comparison& comparison,
                             const std::vector<ModelSummary>& summaries);

}  // namespace rubato::cli
