// server/shard_parameters.hpp - the parameters of one shard, in chunks that replies share. To send
// a chunk copies nothing; a chunk that a reply still holds is copied before it changes. Blank
// parameters have a size and no values: they are for runs of which only the timing counts. Pure.
// Memory: the shard, and one chunk more for each chunk that changed while a reply or a snapshot
// held it. Threads: one owner. A reply may read and release its chunks on any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/shareable.hpp"
#include "proto/buffer_pool.hpp"
#include "proto/payload.hpp"
#include "server/optimizer.hpp"
#include "server/update_guard.hpp"

namespace rubato::server {

class ShardParameters {
 public:
  ShardParameters() = default;
  // `chunk`: elements of a chunk but the last.
  ShardParameters(std::span<const float> initial, std::uint64_t chunk);
  // Blank ones. The beginning of `blank` stands for every chunk. Requires: it holds a chunk.
  ShardParameters(std::uint64_t size, std::uint64_t chunk, std::shared_ptr<const Floats> blank);

  std::uint64_t size() const { return size_; }

  // Applies `update` to the elements from `offset` on. Checksum::Compute: computes, in the same
  // pass, the checksum of each chunk that changes as a whole. Payloads of the chunk carry it.
  // Requires: offset + update.size() <= size(); an empty update for blank parameters.
  // `guard`: null for an update that nobody else can change.
  enum class Checksum { Skip, Compute };
  void apply(Optimizer& optimizer, std::uint64_t offset, std::span<const float> update,
             const Optimizer::Scale& scale, Checksum checksum = Checksum::Skip,
             UpdateGuard* guard = nullptr);

  // W <- W + part (target - W) for the elements from `offset` on.
  // Requires: offset + target.size() <= size().
  void move_towards(std::uint64_t offset, std::span<const float> target, float part,
                    UpdateGuard* guard = nullptr);

  // Returns: the elements from `offset` to the end of its chunk. Requires: offset < size().
  std::uint64_t piece(std::uint64_t offset) const {
    return std::min(chunk_ - offset % chunk_, size_ - offset);
  }
  // Calls f(offset, count, payload) for the pieces of [offset, offset + count), one a chunk.
  template <class F>
  void for_each_piece(std::uint64_t offset, std::uint64_t count, F f) const {
    for (std::uint64_t at = offset; at < offset + count;) {
      const std::uint64_t n = std::min(piece(at), offset + count - at);
      f(at, n, payload(at / chunk_, at % chunk_, n));
      at += n;
    }
  }

  // The largest |element|; 0 if they are blank, infinity or NaN if one is not finite. One pass.
  float largest() const;
  // Returns: a copy of all elements; nothing if they are blank.
  std::vector<float> values() const;

  struct Chunk {
    proto::BufferPool::Buffer values;
    std::optional<std::uint64_t> checksum;  // of all elements, if it was computed
  };
  // The parameters as they are now. Memory: chunks are shared until they change.
  using Snapshot = std::vector<Chunk>;
  Snapshot snapshot() const { return chunks_; }
  // Makes them those of `snapshot`. restore() shares its chunks, load() copies them.
  // Requires: the same size and chunks. restore(): whatever `snapshot` was taken from still exists.
  void restore(const Snapshot& snapshot);
  void load(const Snapshot& snapshot);

 private:
  // Elements of a chunk.
  std::uint64_t count(std::size_t chunk) const { return std::min(chunk_, size_ - chunk * chunk_); }
  // Calls change(parameters, offset, values) for each piece, in a buffer that nobody else holds.
  template <class Change>
  void change(std::uint64_t offset, std::span<const float> values, Checksum checksum,
              Change change);
  // Changes n elements of `chunk` from `begin` on, block by block. change(block, at) changes
  // `block`, the elements from begin + at on.
  template <class Change>
  void apply_to(Chunk& chunk, std::uint64_t begin, std::size_t n, bool hash, Change change);
  proto::Payload payload(std::size_t chunk, std::uint64_t begin, std::uint64_t n) const;

  std::uint64_t size_ = 0;
  std::uint64_t chunk_ = 1;
  proto::BufferPool pool_{0};
  std::vector<Chunk> chunks_;
  std::shared_ptr<const Floats> blank_;
};

}  // namespace rubato::server
