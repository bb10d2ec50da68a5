// server/commit_assembly.hpp - the chunks of one worker's commit until its slice is complete.
// A commit is held whole and applied whole, so NaN or a lost chunk never leaves half an update
// behind (docs/decisions/0003). Pure. Memory: keeps the received frames, copies nothing.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.hpp"
#include "proto/messages.hpp"

namespace rubato::server {

class CommitAssembly {
 public:
  CommitAssembly() = default;
  CommitAssembly(Sequence sequence, std::uint64_t total) : sequence_(sequence), total_(total) {}

  enum class Added { Fresh, Duplicate, Overlap };
  // Requires: commit.sequence == sequence(), commit.total == total.
  Added add(const proto::Commit& commit, proto::Payload payload);

  Sequence sequence() const { return sequence_; }
  bool complete() const { return sequence_ != 0 && received_ == total_; }
  // False when a chunk holds NaN or Inf, or the worker says that the update does on another shard.
  bool finite() const { return finite_; }
  // First elements of the chunks that have not arrived; empty too while only the last one has,
  // which does not tell how long the others are.
  std::vector<std::uint64_t> missing_offsets() const;

  // Calls f(offset, floats) for each chunk in order. Requires: complete().
  template <class F>
  void for_each_chunk(F f) const {
    std::vector<float> scratch;
    for (const auto& [offset, payload] : chunks_) f(offset, payload.floats(scratch));
  }

 private:
  Sequence sequence_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t chunk_count_ = 0;  // elements of a full chunk
  bool finite_ = true;
  std::map<std::uint64_t, proto::Payload> chunks_;  // by first element
};

}  // namespace rubato::server
