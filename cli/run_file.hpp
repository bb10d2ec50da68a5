// cli/run_file.hpp - run.json in the directory of a run: its command and when it began; and of
// `rubato up` what it was asked, so that `rubato up --resume` asks the same.
// Errors: one line that names the file.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "cli/commands.hpp"
#include "cluster/data_facts.hpp"

namespace rubato::cli {

// The file of a run that begins now. `made`: more than that of any earlier run beside it.
[[nodiscard]] Result<void> begin_run_file(const std::string& directory, const std::string& command,
                                          std::uint64_t made);

// What begin_run_file() wrote. Empty strings where nothing is known.
struct RunBeginning {
  std::string command;
  std::string started;     // local time: 2026-11-25T09:30:00+0100
  std::uint64_t made = 0;  // counts the runs of a directory; 0: unknown
};
RunBeginning read_run_beginning(const std::string& directory);

// Adds what was asked. Requires: options.seed is known. The path of the cluster file is kept as an
// absolute one, because paths in that file are relative to it.
[[nodiscard]] Result<void> write_run_file(const std::string& directory, const UpOptions& options);

// Keeps what is known of the run's data. A warning says if an earlier life of the run had others.
void note_data(const std::string& directory, const cluster::DataFacts& data);

// Returns: `options` with what the run of options.resume was asked. What is said anew counts.
// BadInput where nothing can go on there.
[[nodiscard]] Result<UpOptions> resumed(UpOptions options);

}  // namespace rubato::cli
