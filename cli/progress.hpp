// cli/progress.hpp - how far a list of runs is, or a worker: a bar with ETA or a changing line on a
// terminal, a plain line every few seconds elsewhere. Writes to one stream (standard error), so
// standard output stays clean.
// Units: `now` from a steady clock; seconds are those of the run. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/task.hpp"
#include "base/time.hpp"
#include "cli/status_line.hpp"

namespace rubato::cli {

struct ProgressOptions {
  std::size_t run_count = 1;
  // What ends a run; each known bound but the accuracy improves the ETA.
  std::optional<double> target_loss = {};
  std::optional<double> target_accuracy = {};
  Task task = Task::Classification;  // accuracy stands for R^2 in a regression
  std::optional<double> max_seconds = {};
  std::optional<std::uint64_t> max_steps = {};
  bool told_left = false;  // ProgressFigures::left says how long; else the share that is done
};

// What is known of the run under way.
struct ProgressFigures {
  double seconds = 0;
  double loss = 0;      // 0: not known yet
  double accuracy = 0;  // 0 or NaN: not known
  std::uint64_t steps = 0;
  std::optional<double> left = {};  // seconds; empty: not known
  std::string members = {};         // "3 of 4 workers"; empty: not shown
};

class Progress {
 public:
  // Lifetime: `stream` outlives this object.
  Progress(std::FILE* stream, ProgressOptions options, Instant now);

  // `label`: "ADSP seed 2".
  void begin_run(std::string label, Instant now);
  void update(const ProgressFigures& figures, Instant now);
  // Makes room for a line that somebody else writes.
  void clear() { status_.clear(); }
  // Leaves one line that stays: the label and `outcome` ("6 min 10 s, loss 0.449").
  void end_run(const std::string& outcome, Instant now);

 private:
  double run_fraction() const;
  std::string eta(Instant now) const;
  void draw(Instant now);

  StatusLine status_;
  ProgressOptions options_;
  Instant start_;
  std::optional<Instant> last_draw_;
  std::size_t runs_done_ = 0;
  std::string label_;
  ProgressFigures figures_;
  double first_loss_ = 0;  // of this run
};

// One worker in a process of its own.
class WorkerProgress {
 public:
  // Lifetime: `stream` outlives this object.
  WorkerProgress(std::FILE* stream, std::string name) : status_(stream), name_(std::move(name)) {}

  // All since the worker joined. `loss`: of its last steps on its own samples; 0: none since the
  // call before. Shows nothing before the first step.
  void update(std::uint64_t steps, std::uint64_t commits, double loss, Instant now);

 private:
  struct Mark {
    Instant at;
    std::uint64_t steps = 0;
  };
  StatusLine status_;
  std::string name_;
  std::optional<Instant> last_draw_;  // or the first step
  std::optional<Mark> mark_;          // where the window of the rate begins
  double rate_ = 0;                   // steps a second, in the last window
  double loss_ = 0;
};

}  // namespace rubato::cli
