// report/study/pictures.hpp - a study as pictures for a document: which charts, of what.
// Errors: none. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "report/study/summary.hpp"

namespace rubato::report {

// time.svg: time to target along the x axis; a panel for every choice of the other axes, the first
// twelve of them. Requires: `summaries` = summarize(results).
std::string time_picture(const StudyResults& results, const std::vector<VariantSummary>& summaries);

// details.svg: waiting, communicating, steps and bytes a second along the x axis, at the first
// choice of the other axes; where there is no target, commits and bytes, too.
std::string details_picture(const StudyResults& results,
                            const std::vector<VariantSummary>& summaries);

}  // namespace rubato::report
