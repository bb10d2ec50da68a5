// server/commit_values.hpp - the floats of a received chunk, whatever its codec; and the values of
// its averaged elements, which travel behind them as they are (proto/averaged_elements.hpp).
// What another process can change in shared memory is copied before it is checked.
// Threads: one owner. Errors: Corrupt, one line, for a payload that its codec does not allow.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "proto/averaged_elements.hpp"
#include "proto/messages.hpp"
#include "proto/payload.hpp"

namespace rubato::server {

class CommitValues {
 public:
  CommitValues() = default;
  // `averaged`: of the shard. `blank`: nobody needs floats.
  CommitValues(proto::AveragedElements averaged, bool blank)
      : averaged_(std::move(averaged)), blank_(blank) {}

  const proto::AveragedElements& averaged() const { return averaged_; }

  // The elements of the chunk, averaged ones as 0. Lifetime: of the result, until the next call.
  [[nodiscard]] Result<std::span<const float>> floats(const proto::Commit& chunk,
                                                      const proto::Payload& payload);
  // Reads the values of its averaged elements. Returns: the largest magnitude; 0 for none.
  float read_means(const proto::Commit& chunk, const proto::Payload& payload);
  // Calls f(offset, values) for each range of the chunk that was read last.
  template <class F>
  void for_each_mean(const proto::Commit& chunk, F f) const {
    std::size_t next = 0;
    averaged_.for_each(chunk.offset, chunk.count, [&](std::uint64_t offset, std::uint64_t n) {
      f(offset, std::span(means_).subspan(next, n));
      next += n;
    });
  }

 private:
  // `payload`: of the elements that are not averaged.
  [[nodiscard]] Result<std::span<const float>> decoded(const proto::Commit& chunk,
                                                       const proto::Payload& payload);

  proto::AveragedElements averaged_;
  bool blank_ = false;
  std::vector<float> spread_;       // a chunk with its averaged elements as 0
  std::vector<float> means_;        // their values
  std::vector<float> scratch_;      // a chunk that is compressed or not aligned
  std::vector<std::byte> private_;  // one that is compressed, out of shared memory
};

}  // namespace rubato::server
