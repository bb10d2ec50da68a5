// train/cuda/loss_stage.hpp - the loss of a batch, its sums and its gradient (train/loss.hpp), on
// the GPU's stream Compute. Numbers that are not finite behave as there.
// Threads: one owner.
#pragma once

#include "train/cuda/stage.hpp"

namespace rubato::train::cuda {

class LossStage {
 public:
  [[nodiscard]] static Result<LossStage> make(Gpu& gpu, const ModelSpec& spec, int batch_max);
  // scores [size, classes]; answers [size]: int32 labels below `classes`, or float targets;
  // sample_weights [size], or null: all are 1. gradient [size, classes] <- d(mean loss)/d(scores);
  // null when it is not wanted. `sums`, in pinned memory, <- over all samples.
  void run(Gpu& gpu, const float* scores, const void* answers, const float* sample_weights,
           int size, float* gradient, BatchSums* sums) const;

 private:
  Loss loss_ = Loss::SoftmaxCrossEntropy;
  int classes_ = 0;
  Memory weights_;  // float [classes], as in ModelSpec; none: all are 1
  Memory losses_;   // SampleLoss [batch_max]
  Memory sums_;     // BatchSums: of all, then of parts
};

}  // namespace rubato::train::cuda
