// worker/update_encoder.hpp - the update in flight as payloads, chunk by chunk: as f32, or
// compressed with error feedback (proto/compression.hpp).
// An update has the values of averaged elements, not their differences. They follow each chunk as
// f32, and no codec touches them.
// Each chunk is compressed once, when it is first asked for, and kept until the commit is answered.
// A chunk that is sent again has the same bytes, and the residual counts once.
// Shards discard an update with NaN or infinity. It travels as f32 and does not touch the residual.
// A device with memory of its own may pack updates itself (train/own_memory.hpp): then the residual
// is there, and the payloads come with the update.
// A blank encoder is for runs where only the timing counts. Its payloads have the right size and
// arbitrary content.
// Pure. Memory: the residual, and the compressed update while it is in flight. Threads: one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/shareable.hpp"
#include "proto/averaged_elements.hpp"
#include "proto/buffer_pool.hpp"
#include "proto/compression.hpp"
#include "proto/payload.hpp"
#include "proto/shard_map.hpp"
#include "train/own_memory.hpp"
#include "worker/residual.hpp"

namespace rubato::worker {

class UpdateEncoder {
 public:
  // `residual`: left by earlier lives of this worker. Null: compression starts from zeros. With f32
  // and no residual nothing is copied. `chunk`: elements in a message. `blank`: each update is one
  // chunk, which stands for all.
  UpdateEncoder(const proto::Compression& compression, std::shared_ptr<Residual> residual,
                std::uint64_t parameters, std::uint64_t chunk, bool blank = false,
                proto::AveragedElements averaged = {});

  // Updates belong to this run from now on. The residual of another run is dropped. Returns: whose
  // the residual was. Requires: not active.
  Residual::Left join(Incarnation run);
  // The shards have restored kept parameters this often (proto::Parameters::restores). A residual
  // from before the last time is dropped. Returns: true when there was one.
  bool rebase(std::uint32_t restores);
  // The codec of the updates that begin from now on. They also send what other codecs left.
  void use(const proto::Compression& compression);
  // How a device is to pack the next update, for chunks of so many elements. From the first call on
  // the residual is on the device. Lifetime: until the next call. Requires: not active, not blank,
  // no residual of the host.
  train::Packing packing(const proto::ShardMap& shards, std::uint64_t chunk);
  // The update in flight was packed so.
  void begin_packed(std::shared_ptr<const Floats> payloads);
  // The update in flight is this one, of all parameters. `finite`: no NaN or infinity in it.
  void begin(std::shared_ptr<const Floats> update, bool finite);
  // These values are in flight in place of an update: they travel as they are. Drops the residual.
  void begin_plain(std::shared_ptr<const Floats> values);
  // Drops the residual of this update and of those before. Requires: active.
  void drop_residual();
  // The commit was answered or is given up. The update's memory is free.
  void end();

  bool active() const { return update_ != nullptr; }
  // The update as it was given. Requires: active.
  std::span<const float> values() const { return *update_; }
  // False when the update holds NaN or infinity.
  bool finite() const { return finite_; }
  // What a message holds of the update (proto::Commit).
  struct Chunk {
    proto::Payload payload;
    proto::PayloadCodec codec = proto::PayloadCodec::F32;
    std::uint64_t averaged = 0;
  };
  // The elements [begin, begin + count) of the model. Requires: active; an update is always cut at
  // the same elements.
  Chunk chunk(std::uint64_t begin, std::uint64_t count);

 private:
  std::uint64_t buffer_floats() const;
  proto::Compression form_of(std::uint64_t count) const;
  // `count` elements, of which `averaged` are.
  proto::Payload with_averaged(const proto::Compression& form, std::uint64_t begin,
                               std::uint64_t count, std::uint64_t averaged);
  proto::Payload packed_chunk(std::uint64_t begin, std::uint64_t count) const;
  // The device drops its residual. Returns: true when there was one.
  bool forget();

  proto::Compression compression_;
  bool blank_ = false;
  std::shared_ptr<Residual> residual_;
  std::uint32_t restores_ = 0;  // as last heard
  proto::Compressor compressor_;
  proto::BufferPool buffers_;
  std::shared_ptr<const Floats> update_;
  bool finite_ = true;
  bool compressing_ = false;   // false: this update travels as f32
  bool plain_ = false;         // all elements travel in their places
  bool owed_;                  // the residual may hold something
  std::uint64_t cleared_ = 0;  // elements whose residual this update has sent in full
  std::uint64_t chunk_;        // elements
  struct Sent {
    std::uint64_t begin = 0;
    proto::Payload payload;
  };
  std::vector<Sent> sent_;  // ascending
  proto::AveragedElements averaged_;
  std::vector<float> others_, owed_of_others_;  // of one chunk, without the averaged ones
  // Of a device that packs.
  bool on_device_ = false;  // the residual is there
  bool forget_ = false;     // the device is to drop it with the next packed update
  bool packed_ = false;     // the update in flight is
  std::vector<train::PackedRun> runs_;
};

}  // namespace rubato::worker
