// train/host_replica.hpp - the parameters W and the accumulated update U of a device that keeps
// them in host memory: the bookkeeping of train/device.hpp, once.
// U is handed out and its memory comes back, by swapping vectors, never by copying.
// Parameters may be frozen (train/model/trained_part.hpp). Then U and what is loaded and read are
// trained vectors, and weights and gradients are the whole model's. Shapes: every span has count()
// elements unless it says otherwise (checked), so has every vector that is not empty. Memory: W,
// and U from the first descend() after a take_update(), unless it was given some. Threads: one
// owner.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/shareable.hpp"
#include "train/model/trained_part.hpp"

namespace rubato::train {

class HostReplica {
 public:
  explicit HostReplica(std::size_t parameters) : weights_(parameters), trained_(parameters) {}
  std::size_t count() const { return trained_.count(); }
  std::span<const float> weights() const { return weights_; }  // of the whole model
  // From now on `part` is trained; the others stay as in `model`, which has all. Requires: U is 0.
  void freeze(const TrainedPart& part, std::span<const float> model);
  const TrainedPart& trained() const { return trained_; }

  // W <- parameters.
  void load(std::span<const float> parameters);
  // W <- parameters - U.
  void load_under_update(std::span<const float> parameters);
  // W from `begin` on, to be overwritten by parameters. Requires: U is 0 and nothing is frozen.
  std::span<float> part(std::size_t begin, std::size_t count);
  // out <- W.
  void read(std::span<float> out) const;
  // out <- U, U <- 0; the memory of `out` is kept for U. Returns: whether all of it is finite.
  bool take_update(Floats& out);
  // Keeps the memory of `buffer`, whatever is in it, for U if that has none, and leaves it empty.
  void give(Floats& buffer);
  // W <- W - rate gradient, U <- U + rate gradient. gradient: of the whole model.
  void descend(std::span<const float> gradient, float rate);

 private:
  std::vector<float> weights_;
  TrainedPart trained_;
  Floats update_;     // when not zero_: U; else only memory for it, or empty
  bool zero_ = true;  // U is
};

}  // namespace rubato::train
