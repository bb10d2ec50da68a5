// server/parameter_average.hpp - an average of a shard's parameters over its updates, weighted
// towards the last twentieth of them. It is evaluated when the rate is too high for single updates.
// Source: Shamir and Zhang, "Stochastic gradient descent for non-smooth optimization", ICML 2013,
// section 4 (polynomial decay): average <- average + share (W - average), share = 20/n at update n.
// It has no length to choose: the window grows with the run.
// Pure. Memory: the shard. Threads: as server/shard_parameters.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "server/shard_parameters.hpp"

namespace rubato::server {

class ParameterAverage {
 public:
  // Of update n, counted from 1.
  static float share_of(std::uint64_t n) {
    return std::min(1.0f, 20 / static_cast<float>(std::max<std::uint64_t>(n, 1)));
  }

  // `chunk`: as that of the parameters to follow.
  ParameterAverage(std::span<const float> initial, std::uint64_t chunk)
      : average_(initial, chunk) {}

  // Update number `update`, counted from 1, changed [offset, offset + count) of the parameters.
  // Only notes it: to follow is a pass over memory, for a moment when nobody waits for an answer.
  void note(std::uint64_t offset, std::uint64_t count, Version update) {
    noted_.push_back({offset, count, update});
  }
  // Takes in the noted changes. Requires: `parameters` have not changed since note().
  void follow(const ShardParameters& parameters);

  const ShardParameters& parameters() const { return average_; }
  // The average becomes `snapshot`, and noted changes are dropped.
  // restore() shares the snapshot's chunks and load() copies them.
  void restore(const ShardParameters::Snapshot& snapshot) {
    average_.restore(snapshot);
    noted_.clear();
  }
  void load(const ShardParameters::Snapshot& snapshot) {
    average_.load(snapshot);
    noted_.clear();
  }

 private:
  struct Change {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    Version update = 0;
  };

  ShardParameters average_;
  std::vector<Change> noted_;
  std::vector<float> scratch_;
};

}  // namespace rubato::server
