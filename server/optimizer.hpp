// server/optimizer.hpp - how a shard turns a commit into new parameters: W <- W - eta f(weight U).
// Sources: momentum, Polyak 1964; Nesterov momentum as in Sutskever et al. 2013, section 2.
// Pure. Shapes: parameters and update are one shard's slice. Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rubato::server {

enum class OptimizerKind { Sgd, Momentum, Nesterov };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  double momentum = 0.9;              // in [0, 1)
  std::optional<double> global_rate;  // eta; absent: 1/m with the current m
};

class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, std::size_t parameters);

  struct Scale {
    float rate = 1;    // eta
    float weight = 1;  // of this commit's update
  };
  // Returns: eta for `members` workers (at least one).
  float rate(std::size_t members) const;

  // parameters[i], element offset + i of the shard, is moved by weight x update[i]. Chunks of one
  // update go one after the other.
  void apply(std::span<float> parameters, std::uint64_t offset, std::span<const float> update,
             Scale scale);

 private:
  OptimizerOptions options_;
  std::vector<float> velocity_;  // empty for Sgd
};

}  // namespace rubato::server
