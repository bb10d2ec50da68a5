// server/commit_assembly.hpp - which chunks of one worker's commit have arrived. If the gate may
// hold the commit (docs/decisions/0004), it also keeps the chunks until they are applied together.
// Pure. Memory: the received frames; copies nothing. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "proto/chunk_set.hpp"
#include "proto/messages.hpp"

namespace rubato::server {

class CommitAssembly {
 public:
  using Added = proto::ChunkSet::Added;

  // Begins commit `sequence` of `total` elements, of which no chunk has arrived.
  void begin(Sequence sequence, std::uint64_t total);
  // The commit was answered: drops its chunks.
  void end() { begin(0, 0); }

  // Notes that this chunk arrived. Requires: commit.sequence == sequence().
  Added note(const proto::Commit& commit);
  // Keeps a chunk for for_each_chunk(). Requires: note() returned Fresh for it.
  void keep(const proto::Commit& chunk, proto::Payload payload);
  // The commit must not be applied. The first reason counts.
  void taint(proto::RefusedFor why) {
    if (!refused_) refused_ = why;
  }

  Sequence sequence() const { return sequence_; }
  bool complete() const { return sequence_ != 0 && chunks_.complete(); }
  // Set after taint(), or if the worker says that another shard's part is not finite.
  const std::optional<proto::RefusedFor>& refused() const { return refused_; }
  // At most as many as one ProbeReply may name.
  std::vector<std::uint64_t> missing_offsets() const {
    return chunks_.missing_offsets(proto::kMissingOffsetsMax);
  }

  // Calls f(chunk, payload) for each kept chunk, by ascending offset.
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
  std::optional<proto::RefusedFor> refused_;
  proto::ChunkSet chunks_;
  std::vector<Kept> kept_;
};

}  // namespace rubato::server
