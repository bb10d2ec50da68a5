// cli/command_files.hpp - which files each command reads and writes, and whether it may write them:
// what is written is never what is read. Every option that names an output is listed here.
// Errors: BadInput, one line with the option, the file and the remedy, before anything is written.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/commands.hpp"

namespace rubato::cli {

// Kinds of files that commands write. A file of the same kind may be replaced by a newer one.
enum class Kind {
  Page,         // HTML
  Picture,      // SVG
  Table,        // CSV of compare-runs
  Latex,        // of compare-runs
  Predictions,  // CSV
  Schema,
  Evaluation,  // JSON
  Profile,     // trace events
  Chosen,      // cluster file of choose
  Fitted,      // cluster file of replay
  Values,      // trace of a value, beside it
  Device,      // of calibrate
  Rows,        // of a device catalog, to which bench adds
  Study,       // any file of a study's directory
  None,        // no file may be there
};

struct Output {
  std::string option;  // "--html"
  std::string path;    // empty: nothing is written
  Kind kind = Kind::None;
};

struct CommandFiles {
  std::vector<std::string> clusters = {};  // cluster files, each with all files that it names
  std::vector<std::string> runs = {};      // names or directories
  std::vector<std::string> others = {};    // files, or directories with all that is in them
  std::vector<Output> outputs = {};
  std::string place = {};  // --out of a run, which --overwrite empties; empty: none is named
  std::string made = {};   // another directory that the command makes; empty: none
  bool overwrite = false;  // --overwrite: whatever is there, unless it is read
};

CommandFiles compare_files(const CompareOptions& options);
CommandFiles choose_files(const ChooseOptions& options);
CommandFiles what_if_files(const WhatIf& options);
CommandFiles bounds_files(const BoundsRun& options);
CommandFiles replay_files(const ReplayRun& options);
CommandFiles compare_runs_files(const CompareRuns& options);
CommandFiles up_files(const UpOptions& options);
CommandFiles merge_files(const MergeOptions& options);
CommandFiles data_files(const DataRun& options);
CommandFiles predict_files(const ModelRun& options);
CommandFiles evaluate_files(const ModelRun& options);
CommandFiles calibrate_files(const MeasureRun& options);
CommandFiles bench_files(const MeasureRun& options);
CommandFiles scheduler_files(const SchedulerRun& options);
CommandFiles server_files(const nodes::ServerRun& options);
CommandFiles worker_files(const nodes::WorkerRun& options);
CommandFiles boxes_files(const BoxesRun& options);

// Refuses an output that is read, that another option names, too, or that is a file of another
// kind. A pipe or a device is no such file.
[[nodiscard]] Result<void> check_files(const CommandFiles& files);

// Where `rubato choose` writes without --out.
std::string chosen_file(const ChooseOptions& options);

}  // namespace rubato::cli
