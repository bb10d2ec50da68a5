// report/study/study_files.hpp - a study's results for programs (JSON, CSV) and for a terminal.
// Units: as in summary.hpp. Errors: none. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/terminal.hpp"
#include "report/study/summary.hpp"

namespace rubato::report {

// results.json: the study, a summary of every point under every contender, and every run. NaN and
// infinity are null. Ends in a newline; the same results give the same bytes.
std::string study_json(const StudyResults& results, const std::vector<VariantSummary>& summaries);

// runs.csv: one line a finished run, a column for every axis. RFC 4180 quoting.
std::string study_csv(const StudyResults& results);

// A table a point of the grid, for a terminal: one row a contender.
std::string study_table(const StudyResults& results, const std::vector<VariantSummary>& summaries,
                        std::size_t width = kAnyWidth);

// "loss 0.45", from the cluster's stop criterion at this point; empty where there is no target.
std::string target_text(const cluster::ClusterConfig& config);

}  // namespace rubato::report
