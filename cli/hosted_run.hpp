// cli/hosted_run.hpp - what the user sees of a run of nodes: warnings before it, the progress and
// the live page meanwhile, files and a table after it.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "nodes/cluster_host.hpp"
#include "report/live/live_page.hpp"
#include "report/progress.hpp"

namespace rubato::cli {

// Of `run_count` runs of this cluster.
report::ProgressOptions progress_options(const cluster::ClusterConfig& config,
                                         std::size_t run_count, bool real_time);

// Shows a run while it goes on. Threads: one owner, that of the run.
class ShownRun {
 public:
  struct Options {
    std::string sync;
    // Shows this run as one of several, by this name; null: it has a progress of its own, unless
    // `quiet`.
    report::Progress* progress = nullptr;
    std::string label = {};
    bool quiet = false;
    report::LivePage* page = nullptr;  // null: there is none
  };
  // Lifetime: `config`, the progress and the page outlive this object.
  ShownRun(const cluster::ClusterConfig& config, Options options)
      : config_(config), options_(std::move(options)), progress_(options_.progress) {}

  // For the run. Lifetime: this object's.
  nodes::Watch watch();

 private:
  void show_progress(const scheduler::DurableScheduler& scheduler);

  const cluster::ClusterConfig& config_;
  const Options options_;
  std::optional<report::Progress> own_progress_;
  report::Progress* progress_;  // null: quiet
  bool running_ = false;
};

// Adds what is found of it to the record.
void add_findings(const cluster::ClusterConfig& config, nodes::HostedRun& run);

struct Conclusion {
  std::string command;  // as typed, for the report
  std::string out;      // directory for the results, made already
  bool json = false;
  bool missed_ok = false;            // as of CompareOptions
  std::string note = {};             // as Comparison::note
  report::LivePage* page = nullptr;  // told where the report is; null: there is none
};

// Adds the findings. Then writes and prints what a hosted run leaves behind, unless training never
// began. The results of a run that had ended stay as they are, if that process wrote all of them.
// Returns: Stopped after an interrupt; Io, saying why, when the run ended before its stop criterion
// held; Missed when it held without the target, unless that is `missed_ok`.
[[nodiscard]] Result<void> conclude(const cluster::ClusterConfig& config, nodes::HostedRun run,
                                    const Conclusion& options, const std::stop_token& stop);

}  // namespace rubato::cli
