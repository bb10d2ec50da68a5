// worker/update_alignment.hpp - how a worker's updates lie to each other and to the way that the
// global parameters go, as cosines. A sync model may set its rates by them (docs/tempo.md).
// Of an update that is committed when the parameters R_k were loaded, the gradients were taken at
// R_(k-1) if the worker trained on until they came: the way before is R_(k-2) - R_(k-1), the way
// during R_(k-1) - R_k. If it waited for them, they were taken at R_k: the way before is
// R_(k-1) - R_k, and the way during is known of the update before only, the same R_(k-1) - R_k.
// Of large models a sample is looked at: kSampleMax parameters in blocks that are spread evenly, so
// that neither time nor memory grows with the model.
// Source of the limit to an update's length: Pascanu, Mikolov, Bengio, ICML 2013, Alg. 1.
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
  static constexpr double kLongest = 2;

  // The worker now trains from these global parameters.
  void on_loaded(std::span<const float> parameters);
  struct Seen {
    sync::Alignment cosines;  // 0 for what is not known yet
    double part = 1;          // of it that is not too long: kLongest usual lengths at most
  };
  // It commits this update, of steps whose local rates sum up to `rates`; `overlapped`: it trained
  // on while the commit before was in flight. Requires: rates > 0.
  Seen on_commit(std::span<const float> update, double rates, bool overlapped);

 private:
  std::vector<float> loaded_;  // R_k
  std::vector<float> during_;  // R_(k-1) - R_k
  std::vector<float> before_;  // R_(k-2) - R_(k-1)
  std::vector<float> update_;
  std::vector<float> last_;  // the update before
  double length_ = 0;        // usual one of an update, over its rates: EWMA. 0: not known yet
};

}  // namespace rubato::worker
