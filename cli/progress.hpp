// cli/progress.hpp - how far a list of runs is: a bar with ETA on a terminal, a plain line every
// few seconds elsewhere. Writes to one stream (standard error), so standard output stays clean.
// Units: `now` from a steady clock; seconds are those of the run. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "cli/status_line.hpp"

namespace rubato::cli {

struct ProgressOptions {
  std::size_t run_count = 1;
  // What ends a run; each known bound improves the ETA.
  std::optional<double> target_loss = {};
  std::optional<double> max_seconds = {};
};

class Progress {
 public:
  // Lifetime: `stream` outlives this object.
  Progress(std::FILE* stream, ProgressOptions options, Instant now);

  // `label`: "ADSP seed 2".
  void begin_run(std::string label, Instant now);
  // `loss` 0: not known yet.
  void update(double seconds, double loss, Instant now);
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
  double seconds_ = 0;
  double loss_ = 0;
  double first_loss_ = 0;  // of this run
};

}  // namespace rubato::cli
