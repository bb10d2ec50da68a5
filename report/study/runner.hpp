// report/study/runner.hpp - many independent runs on several threads, each run on one.
// Threads: `work` is called by all of them at once, `done` by one at a time; the caller waits.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <vector>

#include "base/result.hpp"
#include "report/study/cell_result.hpp"

namespace rubato::report {

// Computes one run; `stop` asks it to give up, and what it then returns is not used.
using Work = std::function<Result<CellResult>(std::size_t job, const std::stop_token& stop)>;
using Done = std::function<Result<void>(std::size_t job, CellResult result)>;

// Runs jobs 0 to count - 1 in that order, `threads` at a time.
// Returns: the first error, after which no job begins; Stopped when `stop` came first.
[[nodiscard]] Result<void> run_jobs(std::size_t count, int threads, const std::stop_token& stop,
                                    const Work& work, const Done& done);

}  // namespace rubato::report
