// server/update_memory.hpp - an update of each worker, and the mean of them. A new update of a
// worker takes the place of its old one, or of a part of it.
// Source: IA2SGD, the memory of arXiv 2511.19066 (ACE). With what is kept for later, it is the two
// tables of arXiv 2509.22860 (Ringleader).
//
// The sum is kept and changed by what a new update differs from the old one, so a commit costs one
// pass whatever the number of workers. It is kept in double, so that what is taken out leaves
// nothing behind.
// Pure. Memory: a shard for each worker, and three for the sum and the mean; with two tables up to
// two for each worker. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.hpp"

namespace rubato::server {

class UpdateMemory {
 public:
  struct State {
    std::map<WorkerId, std::vector<float>> last;
    std::vector<double> sum;  // of all of them; empty: nobody was ever remembered
    std::map<WorkerId, std::vector<float>> later;
  };
  UpdateMemory() = default;
  explicit UpdateMemory(State state) : state_(std::move(state)) {}
  const State& state() const { return state_; }

  // What becomes of what is remembered, X: keep X + by x update.
  struct Blend {
    float by = 1;
    float keep = 0;
    bool later = false;  // of what is kept for later
  };
  // Remembers the elements of `worker` from `offset` on. `size`: of the shard. Elements that a
  // worker has never given count as 0.
  void put(WorkerId worker, std::uint64_t size, std::uint64_t offset, std::span<const float> update,
           const Blend& blend);
  void forget(WorkerId worker);
  // What is kept for later takes the place of the rest. One pass for each worker.
  void turn();
  // Returns: the mean over the workers that are remembered. Empty: nobody is.
  // Lifetime: until the next call.
  std::span<const float> mean();

 private:
  State state_;
  std::vector<float> mean_;
};

}  // namespace rubato::server
