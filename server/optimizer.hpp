// server/optimizer.hpp - how a shard turns a commit into new parameters: W <- W - eta f(weight U).
// Sources: server/optimizer_options.hpp lists them. Nesterov: Sutskever et al. 2013, section 2.
// Delayed Nesterov: Liu et al., arXiv 2401.09135, Alg. 3.
// Letters: U update, g = weight U, eta global rate, beta momentum, N delay, c activation.
//
// Delayed Nesterov: D += g. Then
//   every N-th commit: M <- beta M + D, W <- W - eta [(1 - cN + c) beta M + g], D <- 0;
//   other commits:     W <- W - eta [c beta M + g].
// The paper's epsilon is our N eta, and its momentum our M / N. So eta has the same meaning for all
// optimizers, and N = 1 is Nesterov.
// Adam: g is the gradient, one step a commit. global_rate bounds how far a parameter moves.
//
// Each is one pass over memory. Pure. Shapes: parameters and update are one shard's slice.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "server/optimizer_options.hpp"

namespace rubato::server {

class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, std::size_t parameters);

  // How one commit is applied. All its chunks have the same scale.
  struct Scale {
    float rate = 1;            // eta
    float weight = 1;          // of this commit's update
    std::uint64_t number = 1;  // of this commit, from 1, in the order of first chunks
    std::uint64_t delay = 1;   // N
  };
  // For commit `number`, with `members` workers (at least one).
  Scale scale(std::size_t members, double weight, std::uint64_t number) const;

  // Moves parameters[i], element offset + i of the shard, by update[i].
  void apply(std::span<float> parameters, std::uint64_t offset, std::span<const float> update,
             const Scale& scale);

  // What the optimizer remembers of earlier commits. [parameters] each, or empty.
  struct State {
    std::vector<float> velocity;  // empty for Sgd
    std::vector<float> second;    // Delayed Nesterov: D. Adam: the mean square. Else empty
  };
  const State& state() const { return state_; }
  // Requires: a state of the same kind and number of parameters.
  void set_state(const State& state);

 private:
  OptimizerOptions options_;
  State state_;
};

}  // namespace rubato::server
