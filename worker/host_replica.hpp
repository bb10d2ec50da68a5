// worker/host_replica.hpp - the parameters W and the accumulated update U of a device that keeps
// them in host memory: the bookkeeping of worker/device.hpp, once.
// Shapes: every span has count() elements (checked). Threads: one owner.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rubato::worker {

class HostReplica {
 public:
  explicit HostReplica(std::size_t count) : weights_(count), update_(count) {}
  std::size_t count() const { return weights_.size(); }
  const float* weights() const { return weights_.data(); }

  // W <- parameters.
  void load(std::span<const float> parameters);
  // W <- parameters - U.
  void load_under_update(std::span<const float> parameters);
  // out <- W.
  void read(std::span<float> out) const;
  // out <- U, U <- 0. Returns: whether all of it is finite.
  bool take_update(std::span<float> out);
  // W <- W - rate gradient, U <- U + rate gradient.
  void descend(std::span<const float> gradient, float rate);

 private:
  std::vector<float> weights_;
  std::vector<float> update_;
};

}  // namespace rubato::worker
