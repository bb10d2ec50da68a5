// report/curves_csv.hpp - curves.csv: every evaluation of every run, for spreadsheets and plots.
// Columns: sync,seed,seconds,steps,commits,loss,accuracy,judged_loss,judged_accuracy. Accuracy in
// [0, 1], nan where nothing is held out. Judged: means of the last five evaluations, which the
// target is compared with.
#pragma once

#include <string>

#include "report/comparison.hpp"

namespace rubato::report {

// Returns: a header line and one line an evaluation; RFC 4180 quoting; shortest exact numbers.
std::string curves_csv(const Comparison& comparison);

}  // namespace rubato::report
