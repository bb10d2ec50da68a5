// report/run_comparison.hpp - several run directories side by side: each model of each directory
// with its median, how sure that is, and whether it differs from a reference. The value is the time
// to target, or the final loss where there is no target. A run that never arrived, or that
// diverged, counts as infinite. Errors: BadInput for directories that cannot be compared. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/terminal.hpp"
#include "report/comparison.hpp"
#include "report/run_statistics.hpp"

namespace rubato::report {

struct NamedComparison {
  std::string name;  // of its directory
  Comparison comparison;
};

// A row against its reference.
struct Difference {
  std::size_t reference = 0;    // row
  std::optional<double> ratio;  // median / the reference's; none where either is infinite or 0
  double chance = 1;            // mann_whitney of both
};

struct SideBySideRow {
  std::string run;
  std::string sync;
  std::string title;
  std::vector<double> values;  // by run
  std::size_t reached = 0;     // how many are finite
  double median = 0;
  Interval interval;
  std::optional<Difference> difference;
};

struct SideBySide {
  std::string target;  // empty: final losses
  std::vector<SideBySideRow> rows;
};

// The reference of a row is the same model in the first directory. In the first directory, or
// where that lacks the model, it is the first row.
// BadInput: targets, tasks or models without any evaluation cannot stand side by side.
[[nodiscard]] Result<SideBySide> side_by_side(const std::vector<NamedComparison>& runs);

// The header, then a line each row: texts of the table.
std::vector<std::vector<std::string>> side_by_side_cells(const SideBySide& all);
// For a terminal.
std::string side_by_side_table(const SideBySide& all, std::size_t width = kAnyWidth);
std::string side_by_side_csv(const SideBySide& all);    // empty fields for what is infinite
std::string side_by_side_latex(const SideBySide& all);  // a tabular; needs booktabs

}  // namespace rubato::report
