// report/study/study_report.hpp - a study as one self-contained web page: time to target, waiting,
// bytes and steps along the x axis, any point of the grid in detail, the whole grid as a table.
// Errors: none. Threads: a pure function.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "report/study/summary.hpp"

namespace rubato::report {

// Requires: `summaries` = summarize(results), not empty.
std::string study_report(const StudyResults& results, const std::vector<VariantSummary>& summaries);

// The data of the page, also of a study without any finished run.
OrderedJson study_data(const StudyResults& results, const std::vector<VariantSummary>& summaries);

}  // namespace rubato::report
