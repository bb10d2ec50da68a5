// report/table.hpp - text in columns, for a terminal of any width; the comparison as such a table.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/terminal.hpp"
#include "report/comparison.hpp"

namespace rubato::report {

// Columns of cells, the header first in each; the first column is aligned to the left, the others
// to the right. Columns that do not fit into `width` follow below, beside the first `keys` columns
// again. A cell that is too long is broken into lines. Cells are shown as printable() shows them.
// Returns: the lines, without an end of the last.
std::string aligned(const std::vector<std::vector<std::string>>& columns,
                    std::size_t width = kAnyWidth, std::size_t keys = 1);

// Returns: a line that says what was compared, a blank line, one row a model, a blank line and the
// headline. Figures are medians over the seeds (shares: means). ASCII but for names from outside.
std::string comparison_table(const Comparison& comparison,
                             const std::vector<ModelSummary>& summaries,
                             std::size_t width = kAnyWidth);

}  // namespace rubato::report
