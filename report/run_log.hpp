// report/run_log.hpp - run.jsonl, the log of a comparison or of one real run, as JSON lines. It
// holds everything that results.json, curves.csv and report.html are made of. Lines, by "event":
// "comparison" once; for each run "run", "evaluation", "decision", "commit_counts", "worker" and
// "end"; "over" once, when the command ended. A log without "over" is that of a command that was
// killed: its runs are a part. Units: as in base/run_record.hpp. NaN and infinity are null. Pure.
#pragma once

#include <string>

#include "base/result.hpp"
#include "report/comparison.hpp"

namespace rubato::report {

// The first line, the lines of one run, and the last line. Each ends with a line feed.
std::string log_begin(const Comparison& comparison);
std::string log_run(const RunRecord& run);
std::string log_over(const Comparison& comparison);

// All of them.
std::string run_log(const Comparison& comparison);

// Returns: the comparison that the log tells of; log lines of a run without its "end" are left out.
// BadInput, naming `file` and the line, for anything else.
[[nodiscard]] Result<Comparison> parse_run_log(const std::string& text, const std::string& file);

}  // namespace rubato::report
