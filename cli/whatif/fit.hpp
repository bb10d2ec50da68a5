// cli/whatif/fit.hpp - from a real run to a cluster that does the same in virtual time: step times
// of each worker as a distribution where they scatter or a trace where they drift, who came and
// went, and how long a commit's round trip takes. Pure. Units: seconds since training started.
// Errors: BadInput, one line. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/run_record.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/value_trace.hpp"
#include "scheduler/run_samples.hpp"

namespace rubato::cli::whatif {

struct WorkerFit {
  std::string worker;
  std::uint64_t steps = 0;
  std::uint64_t commits = 0;
  double step_seconds = 0;  // mean
  double file_step = 0;     // that the cluster file gives it; 0: none
  double jitter = 0;        // of a step, as a fraction of the mean; 0 with `speed`
  // Where step times drift: a step takes 1 / speed of the mean. Else empty.
  std::vector<cluster::TracePoint> speed = {};
  double round_trip = 0;           // of a commit, mean; 0: it made none
  std::vector<double> heard = {};  // when it told of steps
};

// Of every worker that made a step, in the order in which they first appear.
// A sample has a mean over some steps. Times scatter if these means differ as means of independent
// steps do; then a step's deviation is sqrt(n) times that of a mean of n. They drift if
// neighbouring samples resemble each other: their correlation is above three standard errors of
// chance.
std::vector<WorkerFit> fit_workers(const std::vector<scheduler::RunSample>& samples);

// What a fit makes of the links.
struct LinkFit {
  bool unshaped = false;                            // the links of the file had no effect
  std::map<std::string, double> more_latency = {};  // one way, by worker; below 0: less
};
// What each of several seeds of a replay came to.
using Replays = std::vector<std::vector<WorkerFit>>;
// Whether the round trip of every worker is the mean of the replays, to 1 % or three deviations of
// a seed.
bool links_fit(const std::vector<WorkerFit>& measured, const Replays& replays);
// `links`, with which the replays ran, and what is still missing to `measured`, beyond what seeds
// differ by: where transfers share a link, chance moves a round trip more than latency does. Links
// are found to have had no effect where most round trips are less than half of what they ask.
LinkFit fit_links(const LinkFit& links, const std::vector<WorkerFit>& measured,
                  const Replays& replays);

// What the cluster file gives each worker, before anything changes it.
void add_file_steps(std::vector<WorkerFit>& workers, const cluster::ClusterConfig& file);

// The cluster file's cluster becomes the one that was measured: devices, links, and who came, left
// and was lost. A worker of the file that never joined is removed. `config` may be the file with
// another setting, such as a larger batch: a step is as many times longer as in the file.
[[nodiscard]] Result<void> apply_fit(cluster::ClusterConfig& config,
                                     const std::vector<WorkerFit>& workers, const LinkFit& links,
                                     const RunRecord& record);

}  // namespace rubato::cli::whatif
