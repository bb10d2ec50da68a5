// report/run_directory.hpp - the directory that `rubato compare`, `up` and `scheduler` write: what
// was asked, what happened, and what it adds up to. docs/runs.md says what each file is.
// Errors: Io; BadInput for a directory that holds no run, or a damaged one.
#pragma once

#include <string>

#include "base/result.hpp"
#include "report/comparison.hpp"

namespace rubato::report {

// Begins run.jsonl anew, and adds a run to it: what is there survives a kill of this process.
[[nodiscard]] Result<void> begin_log(const Comparison& comparison, const std::string& directory);
[[nodiscard]] Result<void> add_to_log(const RunRecord& run, const std::string& directory);

// Writes every file. The same comparison gives the same bytes.
[[nodiscard]] Result<void> write_run_directory(const Comparison& comparison,
                                               const std::string& directory);

// What write_run_directory wrote there, or begin_log and add_to_log before a kill.
[[nodiscard]] Result<Comparison> read_run_directory(const std::string& directory);

}  // namespace rubato::report
