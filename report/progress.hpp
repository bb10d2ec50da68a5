// report/progress.hpp - how far a list of runs is, or a worker: a bar or a changing line on a
// terminal, elsewhere plain lines, each after twice the time of the one before. Writes to one
// stream (standard error), so standard output stays clean. Units: `now` from a steady clock;
// seconds are those of the run. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "base/growing_interval.hpp"
#include "base/task.hpp"
#include "base/time.hpp"
#include "report/status_line.hpp"

namespace rubato::report {

struct ProgressOptions {
  std::size_t run_count = 1;
  // What ends a run.
  std::optional<double> target_loss = {};
  std::optional<double> target_accuracy = {};
  Task task = Task::Classification;  // accuracy stands for R^2 in a regression
  std::optional<double> max_seconds = {};
  std::optional<std::uint64_t> max_steps = {};
  bool real_time = false;  // the seconds of a run are those of the clock
};

// What is known of the run under way.
struct ProgressFigures {
  double seconds = 0;
  double loss = 0;      // 0: not known yet
  double accuracy = 0;  // 0 or NaN: not known
  std::uint64_t steps = 0;
  std::optional<double> left = {};  // seconds of the run; empty: not known
  std::string members = {};         // "3 of 4 workers"; empty: not shown
};

class Progress {
 public:
  // Lifetime: `stream` outlives this object.
  Progress(std::FILE* stream, ProgressOptions options, Instant now);

  // `label`: "ADSP seed 2".
  void begin_run(std::string label, Instant now);
  void update(const ProgressFigures& figures, Instant now);
  // Leaves one line that stays: the label and `outcome` ("6 min 10 s, loss 0.449").
  void end_run(const std::string& outcome, Instant now);

 private:
  // How much of the current run is done at least, in [0, 1).
  double run_fraction() const;
  // Seconds of the clock until all runs have ended; empty: not known.
  std::optional<double> seconds_left(Instant now) const;
  void draw(Instant now);

  StatusLine status_;
  ProgressOptions options_;
  Instant run_began_;
  std::optional<Instant> last_draw_;
  GrowingInterval line_interval_;
  Duration next_line_;       // after the last one
  double done_seconds_ = 0;  // of the clock, that the runs took which have ended
  std::size_t runs_done_ = 0;
  std::string label_;
  ProgressFigures figures_;
  double shown_ = 0;  // of all runs, in [0, 1]: a bar does not go back
};

// One worker in a process of its own.
class WorkerProgress {
 public:
  // Lifetime: `stream` outlives this object.
  WorkerProgress(std::FILE* stream, std::string name);

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
  GrowingInterval line_interval_;
  Duration next_line_;        // after the last one
  std::optional<Mark> mark_;  // where the window of the rate begins
  double rate_ = 0;           // steps a second, in the last window
  double loss_ = 0;
};

}  // namespace rubato::report
