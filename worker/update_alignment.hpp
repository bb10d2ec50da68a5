// worker/update_alignment.hpp - how a worker's updates lie to each other and to the way that the
// global parameters go: the cosines by which `tempo` sets its rates (docs/tempo.md).
// Of an update that is committed when the parameters R_k were loaded, the gradients were taken at
// R_(k-1); the way before is R_(k-2) - R_(k-1), the way during R_(k-1) - R_k.
// Of large models a sample is looked at: kSampleMax parameters in blocks that are spread evenly, so
// that neither time nor memory grows with the model.
// Pure. Shapes: all parameters each time. Threads: one owner.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sync/model.hpp"

namespace rubato::worker {

class UpdateAlignment {
 public:
  static constexpr std::size_t kSampleMax = 1 << 16;

  // The worker now trains from these global parameters.
  void on_loaded(std::span<const float> parameters);
  // It commits this update. Returns: its cosines; 0 for what is not known yet.
  sync::Alignment on_commit(std::span<const float> update);

 private:
  std::vector<float> loaded_;  // R_k
  std::vector<float> during_;  // R_(k-1) - R_k
  std::vector<float> before_;
  std::vector<float> update_;  // the last one
};

}  // namespace rubato::worker
