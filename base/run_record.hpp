// base/run_record.hpp - what one training run did, in numbers: the scheduler fills it, reports read
// it. Accuracy stands for R^2 in a regression (base/task.hpp).
// Plain data. Units: seconds since training started, bytes on the wire, shares in [0, 1].
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_part.hpp"
#include "base/task.hpp"
#include "base/worker_figures.hpp"

namespace rubato {

struct EvaluationRecord {
  double seconds = 0;
  std::uint64_t steps = 0;  // of all workers, as last reported
  std::uint64_t commits = 0;
  double loss = 0;
  double accuracy = 0;  // or R^2; NaN where nothing is held out and the loss is that of training
  ClassFigures classes = {};  // of a classifier that is evaluated in one place
};

struct DecisionRecord {  // one decision of the tuner
  double seconds = 0;
  std::string quantity;  // what was chosen: "commit rate", "local steps", ...
  double value = 0;      // after the decision
  std::string reason;
};

struct CommitCountRecord {  // commits of every worker at an evaluation instant
  double seconds = 0;
  std::vector<std::uint64_t> commits;  // as RunRecord::workers
};

inline constexpr std::size_t kCommitCountsMax = 1024;

// Commits that were refused: not finite, too large, of another kind, out of date.
using RefusedByReason = std::array<std::uint64_t, 4>;

// One life of a worker: who comes back has another, by the same name.
struct WorkerRecord : WorkerFigures {
  std::string id;  // name
  std::uint64_t steps = 0;
  std::uint64_t commits = 0;
  double step_seconds = 0;      // measured mean
  std::string fate = "member";  // member | left | lost | set aside
  double joined_seconds = 0;    // 0: training began with it
  std::optional<double>
      left_seconds;  // when it left, or was found lost; empty: a member to the end
  // On samples that the worker itself held out, last measured. 0 samples: it measured nothing.
  std::uint64_t held_out_samples = 0;
  double held_out_loss = 0;
  double held_out_accuracy = 0;
  RefusedByReason refused = {};  // of a real run; the most that one server has refused
  // Of its last steps, on the samples that it trains on; empty: it told of none.
  std::optional<double> training_loss = {};
  std::optional<double> joules = {};  // empty: what its device draws is unknown
  std::uint32_t number = 0;           // in messages: "worker 3"; they count in the order of joining
  std::uint64_t left_out = 0;         // files and samples of its own data that were not taken
  // `late` as a part of what the device takes that it stands for.
  double late_share() const {
    const double asked = (compute - late).seconds();
    return asked > 0 ? late.seconds() / asked : 0;
  }
};
// Above it times are too long: the machine was too busy.
inline constexpr double kLateShareMax = 0.03;

// Something that makes a run worthless or suspicious.
struct Finding {
  std::string code;  // a word for programs: "diverged"
  std::string text;  // what, why and what to do; part of a line, without a full stop
  bool operator==(const Finding&) const = default;
};

// Its WorkerFigures are sums over all lives of workers.
struct RunRecord : WorkerFigures {
  std::string sync;
  std::uint64_t seed = 0;
  std::optional<double> time_to_target_seconds;  // empty: not reached
  std::string stop_reason;
  double seconds = 0;
  std::uint64_t steps = 0;
  std::uint64_t commits = 0;
  double compute_share = 0;
  double wait_share = 0;
  double communicate_share = 0;
  double final_loss = 0;  // means nothing unless measured()
  double final_accuracy = 0;
  double heterogeneity = 0;  // measured
  // In a real run those of all workers, else those of all shards.
  std::optional<std::uint64_t> refused_commits;
  RefusedByReason refused = {};
  std::uint32_t setbacks = 0;  // so often all shards went back to their last good copy
  std::vector<WorkerRecord> workers;
  std::vector<EvaluationRecord> evaluations;
  std::vector<DecisionRecord> decisions;
  std::vector<CommitCountRecord> commit_counts;  // kCommitCountsMax at most, evenly thinned
  // What progress waited for, largest share first. Empty: unknown, as of a real run.
  std::vector<PathPart> path;
  std::vector<Finding> findings;  // of report/findings.hpp, once the run has ended; worst first

  // False where nobody evaluated the model: a run of which only the timing counts, or one that
  // ended before. It has no loss and no accuracy, which is not the same as 0.
  bool measured() const { return !evaluations.empty(); }
  bool found(std::string_view code) const {
    return std::ranges::find(findings, code, &Finding::code) != findings.end();
  }
};

}  // namespace rubato
