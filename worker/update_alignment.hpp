// worker/update_alignment.hpp - how a worker's updates lie to each other and to the way of the
// global parameters, as cosines. A sync model may set its rates by them (docs/tempo.md).
// Letters: R_k the parameters of the worker's k-th reply.
// The way during an update is R_(k-1) - R_k, which came while it was made. If the worker waited for
// R_k, its update was made at R_k, and the way is that during the update before.
// Of a large model only kSampleMax parameters are looked at, in blocks that are spread evenly. So
// neither time nor memory grows with the model. Averaged elements count as 0.
// Source of the limit to an update's length: Pascanu, Mikolov, Bengio, ICML 2013, Alg. 1.
// Pure. Shapes: all parameters each time. Threads: one owner.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "proto/averaged_elements.hpp"
#include "sync/model.hpp"

namespace rubato::worker {

class UpdateAlignment {
 public:
  static constexpr std::size_t kSampleMax = 1 << 16;
  static constexpr double kLongest = 2;

  explicit UpdateAlignment(proto::AveragedElements averaged = {})
      : averaged_(std::move(averaged)) {}

  // Nothing of before is known any more.
  void begin_anew() { *this = UpdateAlignment(std::move(averaged_)); }
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
  // out <- at most kSampleMax of `all`, the same places each time.
  void sample(std::span<const float> all, std::vector<float>& out) const;
  void add_block(std::span<const float> all, std::size_t at, std::size_t count,
                 std::vector<float>& out) const;

  proto::AveragedElements averaged_;
  std::vector<float> loaded_;  // R_k
  std::vector<float> during_;  // R_(k-1) - R_k
  std::vector<float> update_;
  std::vector<float> last_;  // the update before
  double length_ = 0;        // usual one of an update, over its rates: EWMA. 0: not known yet
};

}  // namespace rubato::worker
