// server/reply_encoder.hpp - the parameters of a shard in the form that one worker wants:
// compressed as they are (f16, bf16), or as the compressed difference from what that worker holds
// (int8, top-k, random-k). The shard notes what the worker holds after each reply, so that what
// compression left out is in the next difference: error feedback for downloads.
// A chunk that compression would not make smaller is the parameters themselves, f32.
// Pure. Memory: payloads of f16 and bf16, as many as were ever on their way at once, one for all
// the workers that are answered the same; and for each worker whose last commit wanted differences
// one shard, and payloads as many as were on their way to it at once. Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "proto/buffer_pool.hpp"
#include "proto/compression.hpp"
#include "proto/messages.hpp"

namespace rubato::server {

// What a worker wants, by its last commit, and what it holds.
struct ReplyState {
  // A commit arrives that wants its answer so, from a worker that holds exactly what was noted
  // (`as_noted`) or something else. Lets go of what was noted where the answer is no difference:
  // none of it is noted, so the next difference has no base, and answers sent again are f32.
  void want(const proto::Compression& form, bool as_noted);

  proto::Compression wanted;
  bool based = false;            // it holds exactly `held`
  bool any = false;              // something was noted
  std::vector<float> held = {};  // [shard], once something was; a blank encoder needs none
  std::optional<proto::BufferPool> buffers = {};  // of differences in this form, once there was one
};

class ReplyEncoder {
 public:
  // `chunk`: elements of a message at most. `blank`: payloads have the right size and any content,
  // for runs of which only the timing counts.
  explicit ReplyEncoder(std::uint64_t chunk, bool blank = false)
      : chunk_(chunk),
        blank_(blank),
        halves_(proto::payload_floats({proto::PayloadCodec::F16}, chunk)) {}

  // `parameters`: as f32, the elements [reply.offset, + reply.count) of a shard of `shard`. Sets
  // codec and noted of `reply`. `seed` chooses what random-k sends. Parameters that are not finite
  // travel as f32, and f32 is `parameters` itself, not copied. Each element of a reply may be
  // encoded once: what is sent again goes as f32, not noted.
  proto::Payload encode(const proto::Payload& parameters, std::uint64_t shard, ReplyState& state,
                        std::uint64_t seed, proto::Parameters& reply);

  // In between the parameters do not change, and each chunk is given with the same offset: halves
  // of it are encoded once, for all workers that want them.
  void begin_same() { same_ = true; }
  void end_same();

 private:
  // Nothing: there is NaN or infinity in it.
  std::optional<proto::Payload> halves(const proto::Compression& form,
                                       std::span<const float> values, std::uint64_t offset);
  std::optional<proto::Payload> difference(const proto::Compression& form,
                                           std::span<const float> values, std::span<float> held,
                                           ReplyState& state, std::uint64_t seed);
  proto::Payload compress(const proto::Compression& form, std::span<const float> values,
                          std::uint64_t seed, proto::BufferPool& buffers);

  std::uint64_t chunk_;
  bool blank_;
  proto::Compressor compressor_;
  proto::BufferPool halves_;
  bool same_ = false;
  struct Encoded {
    proto::PayloadCodec codec = proto::PayloadCodec::F16;
    std::uint64_t offset = 0;
    proto::Payload payload;
  };
  std::vector<Encoded> encoded_;  // ascending, while the parameters are the same
  std::vector<float> scratch_;
  std::vector<float> difference_;  // of one chunk
};

}  // namespace rubato::server
