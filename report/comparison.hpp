// report/comparison.hpp - the runs of several sync models on one cluster, and what they add up to:
// the one input of the table, results.json, curves.csv and the report.
// Units: as in base/run_record.hpp. Errors: none. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/run_record.hpp"
#include "base/task.hpp"
#include "report/finding_codes.hpp"
#include "report/host_info.hpp"

namespace rubato::report {

// An option of a sync model, with the value that holds.
struct OptionRecord {
  std::string sync;
  std::string key;
  std::string value;
};

struct Comparison {
  std::string cluster;        // its name
  std::string config_text;    // the cluster file, byte for byte
  std::string resolved_text;  // every key with the value that holds, a line each
  std::string command;        // reproduces the comparison
  HostInfo host;
  std::optional<double> target_loss;
  std::optional<double> target_accuracy;
  ClassTargets class_targets = {};
  // Serial gradients at the speed of the whole cluster take so long to the target; empty: unknown.
  std::optional<double> linear_bound_seconds;
  Task task = Task::Classification;  // accuracy stands for R^2 in a regression
  bool virtual_time = true;
  std::string note;  // what the figures leave out, one sentence; empty: nothing
  std::size_t planned_runs = 1;
  std::string partial;  // what is missing because the command ended early; empty: nothing
  std::vector<OptionRecord> options;  // of the models that were asked for
  std::vector<RunRecord> runs;        // several seeds of several models, grouped in any way

  bool has_target() const { return target_loss || target_accuracy || class_targets.any(); }
};

// The worker whose steps took longer than the file says, by too much; empty: there is none.
std::string busy_note(const Comparison& comparison);

// All seeds of one model. Medians and means are over the seeds.
struct ModelSummary {
  std::string sync;
  std::string title;
  std::vector<std::size_t> runs;         // into Comparison::runs
  std::size_t typical_run = 0;           // into Comparison::runs: the median one, shown in charts
  std::size_t reached = 0;               // how many runs reached the target
  std::optional<double> time_to_target;  // median; a run that never arrived counts as infinite
  double time_min = 0;                   // of the seeds; infinite where none arrived
  double time_max = 0;                   // infinite where one did not arrive
  const finding::Spoiling* spoiling = nullptr;  // of the typical run; null: its loss is a result
  bool first = false;  // shortest median time to target, or its seeds' range meets that one's
  std::optional<double> saving;       // (t_bsp - t) / t_bsp, where both exist
  std::optional<double> bound_share;  // linear bound / t, where both exist
  double seconds = 0;                 // median, as all below up to the shares
  double steps = 0;
  double commits = 0;
  double dropped_commits = 0;  // of `commits`
  double bytes_up = 0;
  double bytes_down = 0;
  bool measured = false;  // all runs have a loss and an accuracy; else the next two mean nothing
  double final_loss = 0;  // as final_figures() has it; NaN counts as infinite
  double final_accuracy = 0;  // infinite where nothing was held out
  double heterogeneity = 0;
  std::vector<PathPart> path;  // what progress waited for, means; empty: unknown
  double compute_share = 0;    // means, so that the three still add up to 1
  double wait_share = 0;
  double communicate_share = 0;
};

// The middle value, or the mean of the two middle ones. NaN counts as +infinity.
// Requires: at least one value.
double median(std::vector<double> values);

// Means over the last few evaluations up to evaluation `at`: what the target is judged by.
struct Judged {
  double loss = 0;
  double accuracy = 0;
  ClassFigures classes = {};
};
Judged judged(const std::vector<EvaluationRecord>& evaluations, std::size_t at);

// What a run ended with. Where there is a target: the mean that was last compared with it. Else the
// last evaluation. Requires: run.measured().
Judged final_figures(const Comparison& comparison, const RunRecord& run);

// Returns: one summary a model, in the order in which the models first appear in `runs`.
std::vector<ModelSummary> summarize(const Comparison& comparison);

// The name shown to people: "adsp" -> "ADSP". A name the factory does not know stays as it is.
std::string model_title(std::string_view sync);

// "loss 0.45", "accuracy 90 %", "R^2 0.9", both joined by a comma, or empty where there is no
// target.
std::string target_text(const Comparison& comparison);

// What was found of the runs, a line each: "ADSP, seeds 1 and 2: ...". What all of several runs
// have in common is said once, without a name.
std::vector<std::string> finding_lines(const Comparison& comparison);

// Returns: one or two sentences: who wins and by how much. Models whose seeds' ranges meet are
// first together. A model whose loss is no result (ModelSummary::spoiling) is never praised.
// Requires: `summaries` not empty.
std::string headline(const Comparison& comparison, const std::vector<ModelSummary>& summaries);

}  // namespace rubato::report
