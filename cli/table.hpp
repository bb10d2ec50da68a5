// cli/table.hpp - the comparison as a table for a terminal of 120 columns or more than 100.
#pragma once

#include <string>
#include <vector>

#include "cli/comparison.hpp"

namespace rubato::cli {

// Columns of cells, the header first in each; the first column is aligned to the left, the others
// to the right. Returns: the lines, without an end of the last.
std::string aligned(const std::vector<std::vector<std::string>>& columns);

// Returns: a line that says what was compared, a blank line, one row a model, a blank line and the
// headline. Figures are medians over the seeds (shares: means). ASCII but for names from outside.
std::string comparison_table(const Comparison& comparison,
                             const std::vector<ModelSummary>& summaries);

}  // namespace rubato::cli
