// cli/whatif/bounds.hpp - how fast a cluster could reach a target: three bounds, each with its
// meaning.
//   linear   K(1) / sum of 1/h: serial gradients, made at the speed of the whole cluster. Nothing
//            that takes mini-batches of this size one after the other is faster.
//   hero     the fastest worker alone (measured elsewhere).
//   T_opt    min over S of K(S) t(S): the best that synchronous gradients at one point can do. It
//            is no optimum: asynchrony and local steps are outside its model.
// Letters: S mini-batches of an update; K(S) updates to the target, K(S) = K_min (1 + B/S); B the
// noise scale; h seconds of a step; c of a commit; t(S) the least t with sum of floor((t - c)/h) >=
// S. Sources: McCandlish et al., arXiv 1812.06162 (B); Tyurin, Richtarik, NeurIPS 2023 (t, T_opt).
// Pure. Units: seconds. Errors: none. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster_config.hpp"

namespace rubato::cli::whatif {

// A serial run: so many mini-batches an update, and updates to the target.
struct SerialRun {
  double batches = 1;
  double updates = 0;
};

struct UpdatesNeeded {
  double least = 0;  // K_min, with all the batches of the world
  double noise = 0;  // B

  double at(double batches) const { return least * (1 + noise / batches); }
};

// By least squares of the relative errors. K_min is at least a hundredth of the fewest updates
// seen. Requires: runs of two different sizes.
UpdatesNeeded fit_updates(const std::vector<SerialRun>& runs);

struct WorkerSpeed {
  std::string name;
  double step_seconds = 0;
  double commit_seconds = 0;  // there and back, for a commit of the model's size
};

// The workers of the file. `parameters`: of the model, as many floats travel each way.
std::vector<WorkerSpeed> worker_speeds(const cluster::ClusterConfig& config,
                                       std::uint64_t parameters);

// t(S) for S from 1 on. Requires: a worker; steps take time.
class Gather {
 public:
  explicit Gather(std::vector<WorkerSpeed> workers);
  // Of the next S. Ends of steps at one time count one by one.
  double next();

 private:
  struct End {
    double at;
    std::size_t worker;
  };
  std::vector<WorkerSpeed> workers_;
  std::vector<End> ends_;  // a heap: the next step of each worker
};

struct BestGather {
  std::uint64_t batches = 1;         // S*
  double seconds = 0;                // T_opt
  std::vector<std::string> useless;  // workers that make no whole step in that time
};
BestGather best_gather(const UpdatesNeeded& updates, const std::vector<WorkerSpeed>& workers);

// K(1) / sum of 1/h.
double linear_bound(double serial_updates, const std::vector<WorkerSpeed>& workers);

}  // namespace rubato::cli::whatif
