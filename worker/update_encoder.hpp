// worker/update_encoder.hpp - the update in flight as payloads, chunk by chunk: as it is, or
// compressed with error feedback (proto/compression.hpp).
// Each chunk is compressed once, when it is first asked for, and kept until the commit is answered:
// what is sent again is the same bytes, and the residual is not counted twice. An update with NaN
// or infinity is going to be discarded: it travels as f32 and leaves the residual alone.
// A blank encoder sends payloads of the right size and no content, for runs of which only the
// timing counts.
// Pure. Memory: the residual, and the compressed update while it is in flight. Threads: one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/shareable.hpp"
#include "proto/buffer_pool.hpp"
#include "proto/compression.hpp"
#include "proto/payload.hpp"
#include "worker/residual.hpp"

namespace rubato::worker {

class UpdateEncoder {
 public:
  // `residual`: what earlier lives of this worker have not sent; may be null, then compression
  // starts from zeros. With f32 and no residual nothing is copied. `chunk`: elements of a message.
  // `blank`: all updates are the beginning of one chunk, and stay as they are.
  UpdateEncoder(const proto::Compression& compression, std::shared_ptr<Residual> residual,
                std::uint64_t parameters, std::uint64_t chunk, bool blank = false);

  // Updates belong to this run from now on: what another one's left out is not sent. Returns: whose
  // it was. Requires: not active.
  Residual::Left join(Incarnation run);
  // The shards have gone back so often (proto::Parameters::restores): what was left out before they
  // last did is not sent. Returns: true when that dropped anything.
  bool rebase(std::uint32_t restores);
  // The codec of the updates that begin from now on. What another one left out is sent with them.
  void use(const proto::Compression& compression);
  // From now on this update, all parameters of it; `finite`: no NaN or infinity in it. `seed`
  // chooses what random-k sends.
  void begin(std::shared_ptr<const Floats> update, bool finite, std::uint64_t seed);
  // What was left out of this update and those before is not to be sent either. Requires: active.
  void drop_residual();
  // The commit was answered, or is given up: lets go of the update.
  void end();

  bool active() const { return update_ != nullptr; }
  // All of it, as it was given. Requires: active.
  std::span<const float> values() const { return *update_; }
  // False when the update holds NaN or infinity.
  bool finite() const { return finite_; }
  // Of the payload of `count` elements of this update.
  proto::PayloadCodec codec(std::uint64_t count) const { return form_of(count).codec; }
  // The elements [begin, begin + count) of the model. Requires: active; the same cuts every time.
  proto::Payload chunk(std::uint64_t begin, std::uint64_t count);

 private:
  proto::Compression form_of(std::uint64_t count) const;

  proto::Compression compression_;
  bool blank_ = false;
  std::shared_ptr<Residual> residual_;
  std::uint32_t restores_ = 0;  // as last heard
  proto::Compressor compressor_;
  proto::BufferPool buffers_;
  std::shared_ptr<const Floats> update_;
  bool finite_ = true;
  bool compressing_ = false;   // this update; else it travels as it is
  bool owed_;                  // the residual may hold something
  std::uint64_t cleared_ = 0;  // elements of it that this update has left without residual
  std::uint64_t chunk_;        // elements
  std::uint64_t seed_ = 0;
  struct Sent {
    std::uint64_t begin = 0;
    proto::Payload payload;
  };
  std::vector<Sent> sent_;  // ascending
};

}  // namespace rubato::worker
