// sync/batch_tuner.hpp - BatchTune: mini-batches in proportion to speed, so that all end a round at
// the same time.
// Source: Chen et al., "Round-robin synchronization: mitigating communication bottlenecks in
// parameter servers" (R2SP), INFOCOM 2019, as a baseline of Hu, Wang, Wu, AAAI 2020. Letters: B the
// configured mini-batch, m workers, b_i that of worker i, t_i its seconds a step.
//
// b_i is in proportion to b_i / t_i, the samples a second; the sum stays m B. A commit's weight is
// b_i / B, so that with the global rate 1/m an update counts b_i / sum(b): a round is what one
// machine makes of all samples of all workers together.
// Told once every member has timed a few steps, and again when somebody's b_i is off by 10 %; a
// worker changes between two commits. Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>
#include <vector>

#include "sync/queued_tuner.hpp"

namespace rubato::sync {

inline constexpr double kMostBatches = 4;  // the largest mini-batch unless told otherwise

// Splits `total` in proportion to `speeds` (each above 0) into whole parts from 1 to `most`, so
// that the last to end ends as early as can be. Requires: speeds.size() <= total <= speeds.size() x
// most.
std::vector<std::uint32_t> proportional_parts(const std::vector<double>& speeds,
                                              std::uint64_t total, std::uint32_t most);

// The largest mini-batch that a worker may be told. most: in configured ones, >= 1.
std::uint32_t largest_batch(double most, int batch);

class BatchTuner final : public QueuedTuner {
 public:
  // most: the largest mini-batch, in configured ones. Requires: most >= 1, batch >= 1.
  BatchTuner(double most, int batch);

  void on_join(Instant now, WorkerId worker) override;
  void on_leave(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;

 private:
  struct Share {
    std::uint32_t batch = 0;             // b_i as last told; 0: not yet
    std::optional<std::uint64_t> steps;  // when the worker first reported a step of this batch
  };
  bool timed(WorkerId worker, const Share& share) const;
  void update(Instant now);

  const std::uint32_t batch_;    // B
  const std::uint32_t largest_;  // b_i at most
  std::map<WorkerId, Share> shares_;
};

}  // namespace rubato::sync
