// server/reply_encoder.hpp - the parameters of a shard in the form that one worker wants:
// compressed as they are (f16, bf16), or as the compressed difference from what that worker holds
// (int8, top-k, random-k). The shard notes what the worker holds after each reply, so that what
// compression left out is in the next difference: error feedback for downloads.
// Pure. Memory: one shard for each worker whose last commit wanted differences. Threads: one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "proto/buffer_pool.hpp"
#include "proto/compression.hpp"
#include "proto/messages.hpp"
#include "proto/shareable.hpp"

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
};

class ReplyEncoder {
 public:
  // `chunk`: elements of a message at most. `blank`: null, or what stands for every payload in a
  // run of which only the timing counts: a chunk or more of anything.
  explicit ReplyEncoder(std::uint64_t chunk, std::shared_ptr<const proto::Floats> blank = nullptr)
      : buffers_(chunk), blank_(std::move(blank)) {}

  // `values`: the elements [reply.offset, + reply.count) of a shard of `shard`. Sets codec and
  // noted of `reply`. `seed` chooses what random-k sends. Parameters that are not finite travel as
  // f32. Each element of a reply may be encoded once: what is sent again goes as f32, not noted.
  proto::Payload encode(std::span<const float> values, std::uint64_t shard, ReplyState& state,
                        std::uint64_t seed, proto::Parameters& reply);

 private:
  proto::Payload compress(const proto::Compression& compression, std::span<const float> values,
                          std::uint64_t seed);

  proto::Compressor compressor_;
  proto::BufferPool buffers_;
  std::shared_ptr<const proto::Floats> blank_;
  std::vector<float> difference_;  // of one chunk
};

}  // namespace rubato::server
