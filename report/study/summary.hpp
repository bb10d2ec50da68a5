// report/study/summary.hpp - what the runs of a study add up to: medians and spread over the seeds
// of every point under every contender. The one input of the table, the files and the report.
// Units: seconds, bytes, shares in [0, 1]. Errors: none. Threads: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/host_info.hpp"
#include "report/study/cell_result.hpp"
#include "report/study/plan.hpp"

namespace rubato::report {

// NaN counts as infinite, and so does the time of a run that never reached the target.
struct Spread {
  double median = 0;
  double low = 0;   // first quartile
  double high = 0;  // third quartile
  double min = 0;
  double max = 0;
};

// Quartiles by linear interpolation between the neighbours. Requires: at least one value.
Spread spread(std::vector<double> values);

// A study with what has been computed of it.
struct StudyResults {
  StudyPlan plan;
  // By variant, then by seed; empty where a run is not finished.
  std::vector<std::vector<std::optional<CellResult>>> cells;
  // Seconds of the linear bound, by point; empty where it is unknown, or for all: none is wanted.
  std::vector<std::optional<double>> linear_bounds = {};
  HostInfo host;
  std::string command;
};

// How many runs are not finished.
std::size_t missing_runs(const StudyResults& results);

// One trial of a contender that searches, over the seeds.
struct Trial {
  Point choice;
  std::size_t runs = 0;  // finished
  std::size_t reached = 0;
  double time = 0;  // to target, median
  double loss = 0;  // at the end, median
};

// All seeds of one contender at one point: of its best trial where it searches. Medians but where
// said otherwise.
struct VariantSummary {
  std::size_t point = 0;
  std::size_t contender = 0;
  std::size_t runs = 0;  // finished
  std::size_t reached = 0;
  std::size_t diverged = 0;
  Spread time;                        // to target
  std::optional<double> saving;       // (t_bsp - t) / t_bsp of the medians at this point
  std::optional<double> bound_share;  // linear bound / median t, where both exist
  Spread length;                      // of the run
  Spread steps;
  Spread commits;
  Spread bytes;             // both directions
  Spread bytes_per_second;  // of the run
  Spread final_loss;
  Spread final_accuracy;
  double compute_share = 0;  // means, so that the three still add up
  double wait_share = 0;
  double communicate_share = 0;
  double heterogeneity = 0;
  double workers = 0;
  std::vector<CurvePoint> curve;  // of the run in the middle, by time to target, then by loss
  Point trial;                    // which of `trials` this is
  std::vector<Trial> trials;      // all that a search has tried, in order; empty without one
};

// Returns: one summary of every contender at every point that has a finished run, in the plan's
// order. The best trial is that with the shortest median time to target, or, where the median never
// arrived, with the lowest final loss; the first of equals. One with fewer finished runs than
// another is not compared: the others' medians may be those of easier seeds.
std::vector<VariantSummary> summarize(const StudyResults& results);

// The first contender under sync::baseline_model(), against which savings count.
std::optional<std::size_t> baseline(const Study& study);

}  // namespace rubato::report
