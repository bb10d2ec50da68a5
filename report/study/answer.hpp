// report/study/answer.hpp - what a study found, in one sentence: the headline of its page.
// Pure. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "report/study/summary.hpp"

namespace rubato::report {

// Says which contender leads at how many points of the grid, and what the x axis changes: "ADSP is
// first to the target at 5 of 6 values of heterogeneity; at heterogeneity = 6 its time is 1.1 times
// that at 1, and that of BSP 8.2 times, the most." Without a target the final loss counts; without
// a loss, the steps. Contenders whose seeds' ranges meet that of the best lead together. Requires:
// `summaries` = summarize(results), not empty.
std::string study_answer(const StudyResults& results, const std::vector<VariantSummary>& summaries);

}  // namespace rubato::report
