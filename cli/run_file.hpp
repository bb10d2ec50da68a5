// cli/run_file.hpp - run.json in the directory of a run: its command and when it began; and of
// `rubato up` what it was asked, so that `rubato up --resume` asks the same.
// Errors: one line that names the file.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/commands.hpp"

namespace rubato::cli {

// The file of a run that begins now.
[[nodiscard]] Result<void> begin_run_file(const std::string& directory, const std::string& command);

// What begin_run_file() wrote. Empty strings where nothing is known.
struct RunBeginning {
  std::string command;
  std::string started;  // local time: 2026-11-25T09:30:00+0100
};
RunBeginning read_run_beginning(const std::string& directory);

// Adds what was asked. Requires: options.seed is known. The path of the cluster file is kept as an
// absolute one, because paths in that file are relative to it.
[[nodiscard]] Result<void> write_run_file(const std::string& directory, const UpOptions& options);

// Returns: `options` with what the run of options.resume was asked. What is said anew counts.
// BadInput where nothing can go on there.
[[nodiscard]] Result<UpOptions> resumed(UpOptions options);

}  // namespace rubato::cli
