// server/commit_assembly.hpp - how far one worker's commit has arrived, and, where a gate may hold
// it (docs/decisions/0004), its chunks until they are applied as a whole.
// Pure. Memory: keeps the received frames, copies nothing. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.hpp"
#include "proto/chunk_set.hpp"
#include "proto/messages.hpp"

namespace rubato::server {

class CommitAssembly {
 public:
  using Added = proto::ChunkSet::Added;

  // From now on the commit `sequence` of a slice of `total` elements; nothing of it is here.
  void begin(Sequence sequence, std::uint64_t total);
  // The commit was answered: lets go of its chunks.
  void end() { begin(0, 0); }

  // Notes that this chunk arrived. Requires: commit.sequence == sequence().
  Added note(const proto::Commit& commit);
  // Keeps a chunk that was Fresh, for for_each_chunk().
  void keep(const proto::Commit& chunk, proto::Payload payload);
  // A chunk holds NaN or Inf, or the commit began at parameters that were given up.
  void taint() { refused_ = true; }

  Sequence sequence() const { return sequence_; }
  bool complete() const { return sequence_ != 0 && chunks_.complete(); }
  // True when it was tainted, or the worker says that the update is not finite on another shard.
  bool refused() const { return refused_; }
  // As many as one ProbeReply names.
  std::vector<std::uint64_t> missing_offsets() const {
    return chunks_.missing_offsets(proto::kMissingOffsetsMax);
  }

  // Calls f(chunk, payload) for each kept chunk, in order of offset.
  template <class F>
  void for_each_chunk(F f) {
    std::sort(kept_.begin(), kept_.end(),
              [](const Kept& a, const Kept& b) { return a.chunk.offset < b.chunk.offset; });
    for (const Kept& kept : kept_) f(kept.chunk, kept.payload);
  }

 private:
  struct Kept {
    proto::Commit chunk;
    proto::Payload payload;
  };
  Sequence sequence_ = 0;
  bool refused_ = false;
  proto::ChunkSet chunks_;
  std::vector<Kept> kept_;
};

}  // namespace rubato::server
