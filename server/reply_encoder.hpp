// server/reply_encoder.hpp - the parameters of a shard in the form that one worker wants:
// - f16, bf16: the compressed parameters.
// - int8, top-k: the compressed difference from what the worker holds. The shard notes
//   what the worker holds after each reply. So the next difference contains what compression left
//   out of this one: error feedback for downloads.
// A chunk that compression would not make smaller travels as f32.
// Pure. Threads: one owner.
// Memory: f16 and bf16 payloads, as many as were ever on their way at once; workers that get the
// same answer share one. For each worker whose last commit wanted differences: one shard, and as
// many payloads as were on their way to it at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "proto/averaged_elements.hpp"
#include "proto/buffer_pool.hpp"
#include "proto/compression.hpp"
#include "proto/messages.hpp"

namespace rubato::server {

// The form that a worker's last commit asked for, and what that worker holds.
struct ReplyState {
  // A commit asks for its answer in `form`. `as_noted`: the worker holds exactly what was noted.
  // If `form` is no difference, the notes are dropped: the next difference then has no base and
  // travels as f32.
  void want(const proto::Compression& form, bool as_noted);

  proto::Compression wanted;
  bool based = false;            // the worker holds exactly `held`
  bool any = false;              // something was noted
  std::vector<float> held = {};  // [shard], once something was noted; empty for a blank encoder
  std::optional<proto::BufferPool> buffers = {};  // of differences; made for the first of this form
};

class ReplyEncoder {
 public:
  // `chunk`: elements of a message, at most. `blank`: payloads have the right size and any content,
  // for runs of which only the timing counts. `averaged`: elements of the shard of which a
  // difference has the values.
  explicit ReplyEncoder(std::uint64_t chunk, bool blank = false,
                        proto::AveragedElements averaged = {})
      : chunk_(chunk),
        blank_(blank),
        averaged_(std::move(averaged)),
        halves_(proto::payload_floats({proto::PayloadCodec::F16}, chunk)) {}

  // `parameters`: as f32, `reply.count` elements from `reply.offset` on. `shard`: elements of the
  // shard. Sets codec, noted and averaged of `reply`. Returns: the payload. Parameters that are not
  // finite travel as f32. As f32 it is `parameters` itself, not a copy. Encode each element of a
  // reply once: a repeated reply is f32, without this function.
  proto::Payload encode(const proto::Payload& parameters, std::uint64_t shard, ReplyState& state,
                        proto::Parameters& reply);

  // Between begin_same() and end_same() a chunk is encoded to f16 or bf16 once, for all workers.
  // Requires: meanwhile the parameters do not change, and chunks begin at the same offsets.
  void begin_same() { same_ = true; }
  void end_same();

 private:
  // Both return nothing if a value is NaN or infinite.
  std::optional<proto::Payload> halves(const proto::Compression& form,
                                       std::span<const float> values, std::uint64_t offset);
  std::optional<proto::Payload> difference(const proto::Compression& form,
                                           std::span<const float> values, std::span<float> held,
                                           ReplyState& state, proto::Parameters& reply);
  proto::Payload compress(const proto::Compression& form, std::span<const float> values,
                          proto::BufferPool& buffers);

  std::uint64_t chunk_;
  bool blank_;
  proto::AveragedElements averaged_;
  proto::Compressor compressor_;
  proto::BufferPool halves_;
  bool same_ = false;
  struct Encoded {
    proto::PayloadCodec codec = proto::PayloadCodec::F16;
    std::uint64_t offset = 0;
    proto::Payload payload;
  };
  std::vector<Encoded> encoded_;  // by codec and offset; empty but between begin_same and end_same
  std::vector<float> scratch_;
  std::vector<float> difference_;  // of one chunk
};

}  // namespace rubato::server
