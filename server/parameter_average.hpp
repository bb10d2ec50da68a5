// server/parameter_average.hpp - an average of a shard's parameters over its commits, weighted
// towards the last twentieth of them: what is evaluated of a run whose rate is high.
// Source: Shamir and Zhang, "Stochastic gradient descent for non-smooth optimization", ICML 2013,
// section 4 (polynomial decay): average <- average + share (W - average), share = 20/n at commit n.
// It has no length to choose: the window grows with the run.
// Pure. Memory: the shard. Threads: as server/shard_parameters.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "server/shard_parameters.hpp"

namespace rubato::server {

class ParameterAverage {
 public:
  // `chunk`: as that of the parameters to follow.
  ParameterAverage(std::span<const float> initial, std::uint64_t chunk)
      : average_(initial, chunk) {}

  // [offset, offset + count) of the parameters was changed by commit number `commit`, from 1. Only
  // noted: following is a pass over memory, for when nobody waits for an answer.
  void note(std::uint64_t offset, std::uint64_t count, Version commit) {
    noted_.push_back({offset, count, commit});
  }
  // Takes in what was noted. Requires: `parameters` have not changed since.
  void follow(const ShardParameters& parameters);

  const ShardParameters& parameters() const { return average_; }
  // It begins again at what was kept; what was noted is no more.
  void restore(const ShardParameters::Snapshot& snapshot) {
    average_.restore(snapshot);
    noted_.clear();
  }

 private:
  struct Change {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    Version commit = 0;
  };

  ShardParameters average_;
  std::vector<Change> noted_;
  std::vector<float> scratch_;
};

}  // namespace rubato::server
