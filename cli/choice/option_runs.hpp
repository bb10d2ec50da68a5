// cli/choice/option_runs.hpp - runs the options that are tried for a cluster, in virtual time, many
// at once. What a run says and costs depends neither on the machine nor on the number of threads.
// Threads: run() uses several; one caller. Errors: BadInput: the cluster file, one line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/result.hpp"
#include "cli/choice/halving.hpp"
#include "cli/choice/tried.hpp"
#include "cluster/cluster_config.hpp"
#include "emulation/loop_processes.hpp"
#include "train/data/dataset.hpp"

namespace rubato::cli {

// What computing costs on a core that is called usual: a choice has a budget of such seconds.
struct RunCost {
  double step = 0;
  double evaluation = 0;
  double byte = 0;  // on the wire
};

class OptionRuns {
 public:
  // `edit`: what is changed in every cluster that the file describes; it cannot fail. `loops`: of
  // an own model, else null. Options that the cluster cannot have, such as an elastic model with a
  // server optimizer, are left out. Lifetime: `data` outlives this.
  [[nodiscard]] static Result<OptionRuns> make(
      const cluster::ClusterSource& source,
      const std::function<void(cluster::ClusterConfig&)>& edit, const train::DataSplit& data,
      std::shared_ptr<emulation::LoopLauncher> loops);

  const std::vector<Tried>& options() const { return options_; }
  const cluster::ClusterConfig& config(std::size_t option) const { return configs_[option]; }
  const RunCost& cost() const { return cost_; }
  // The costs of a second of the run, at most: all workers compute all the time.
  double cost_per_second() const;

  // `seed`: of the trials' seed 0. `change`: of the cluster of each trial; may be empty. A run that
  // an own loop ends with an error counts as diverged, unless all of them do.
  [[nodiscard]] Result<std::vector<Halving::Result>> run(
      const std::vector<Halving::Trial>& trials, std::uint64_t seed, int threads,
      const std::stop_token& stop,
      const std::function<cluster::ClusterConfig(cluster::ClusterConfig)>& change = {}) const;

 private:
  OptionRuns(const train::DataSplit& data, std::shared_ptr<emulation::LoopLauncher> loops)
      : data_(&data), loops_(std::move(loops)) {}
  Result<void> find_cost();

  const train::DataSplit* data_;
  std::shared_ptr<emulation::LoopLauncher> loops_;
  std::vector<Tried> options_;
  std::vector<cluster::ClusterConfig> configs_;  // by option
  RunCost cost_;
};

// Of a budget; the rest is for clusters that are not as the file says.
inline constexpr double kBudgetOfSearch = 0.75;
// A budget of N minutes is what so many usual cores compute in them.
inline constexpr double kUsualCores = 2;
// What is found with a budget of so many seconds of a usual core. BadInput: it pays for less than
// kEvaluationsFirst evaluations of every option.
inline constexpr double kEvaluationsFirst = 10;
[[nodiscard]] Result<Halving> make_search(const OptionRuns& runs, double budget);

// Runs the search to its end. `round`: called before the runs of each round; may be empty.
[[nodiscard]] Result<void> search(
    const OptionRuns& runs, Halving& halving, std::uint64_t seed, int threads,
    const std::stop_token& stop,
    const std::function<void(const std::vector<Halving::Trial>&)>& round = {});

// What the best options lose where the file is wrong: on clusters whose links and speeds are kOff
// more or less. Each counts beside the best of them there.
inline constexpr double kOff = 0.3;
struct Wrong {
  std::vector<std::size_t> options;
  // By option, of each cluster in which somebody arrives; infinite: it does not.
  std::vector<std::vector<double>> losses;
};
// Empty where the budget does not pay for two clusters, or there is one option.
[[nodiscard]] Result<Wrong> wrong_clusters(const OptionRuns& runs,
                                           const std::vector<Halving::Place>& ranking,
                                           double budget, std::uint64_t seed, int threads,
                                           const std::stop_token& stop);

// The choice: of the options that take at most kNearTheBest longer than the quickest, the one that
// loses least on wrong clusters. Returns: its place in `ranking`.
inline constexpr double kNearTheBest = 0.03;
std::size_t choice_of(const std::vector<Halving::Place>& ranking, const Wrong& wrong);

}  // namespace rubato::cli
