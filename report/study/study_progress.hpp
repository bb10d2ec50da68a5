// report/study/study_progress.hpp - how far the runs of a study are: a bar with the time left on a
// terminal, one line a run elsewhere. Writes to one stream (standard error).
// Units: costs in seconds of a core. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "report/status_line.hpp"

namespace rubato::report {

class StudyProgress {
 public:
  // `variants`: of each job, in order; runs of one variant cost about the same. `kept`: how many
  // runs were finished before. Lifetime: `stream` outlives this object.
  StudyProgress(std::FILE* stream, std::vector<std::size_t> variants, std::size_t kept,
                int threads);

  // What a run of this variant cost in an earlier life of the study.
  void know(std::size_t variant, double cost_seconds);
  // `label`: what ran; `outcome`: "target after 405 s". Jobs end in any order.
  void end_run(std::size_t job, const std::string& label, const std::string& outcome,
               double cost_seconds);
  // Seconds until all jobs are done: the costs of those that are left, by their variants' means, or
  // the mean of all where a variant has not run yet. Negative: nothing is known.
  double seconds_left() const;

 private:
  struct Cost {
    double sum = 0;
    std::size_t count = 0;
  };

  StatusLine status_;
  std::vector<std::size_t> variants_;
  std::vector<bool> ended_;
  std::size_t kept_;
  std::size_t done_ = 0;
  int threads_;
  std::map<std::size_t, Cost> costs_;
};

}  // namespace rubato::report
