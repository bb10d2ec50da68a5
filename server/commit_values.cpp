#include "server/commit_values.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "proto/compression.hpp"

namespace rubato::server {

Result<std::span<const float>> CommitValues::floats(const proto::Commit& chunk,
                                                    const proto::Payload& payload) {
  if (blank_) return std::span<const float>();
  if (chunk.averaged == 0) return decoded(chunk, payload);
  const std::size_t coded = payload.size() - chunk.averaged * sizeof(float);
  const auto others = decoded(chunk, payload.slice(0, coded));
  if (!others) return others;
  spread_.assign(chunk.count, 0.0f);
  std::size_t next = 0;
  averaged_.for_each_other(chunk.offset, chunk.count, [&](std::uint64_t offset, std::uint64_t n) {
    std::ranges::copy(others->subspan(next, n),
                      spread_.begin() + static_cast<std::ptrdiff_t>(offset - chunk.offset));
    next += n;
  });
  return std::span<const float>(spread_);
}

Result<std::span<const float>> CommitValues::decoded(const proto::Commit& chunk,
                                                     const proto::Payload& payload) {
  if (chunk.codec == proto::PayloadCodec::F32) return payload.floats(scratch_);
  scratch_.resize(chunk.count - chunk.averaged);
  auto bytes = payload.bytes();
  if (payload.shared()) {  // what decompress() has checked is not to change under it
    private_.assign(bytes.begin(), bytes.end());
    bytes = private_;
  }
  RUBATO_TRY(proto::decompress(chunk.codec, bytes, scratch_));
  return std::span<const float>(scratch_);
}

float CommitValues::read_means(const proto::Commit& chunk, const proto::Payload& payload) {
  if (chunk.averaged == 0) return 0;
  means_.resize(chunk.averaged);
  const auto bytes = std::as_writable_bytes(std::span(means_));
  std::ranges::copy(payload.bytes().last(bytes.size()), bytes.begin());
  return largest_magnitude(bytes);
}

}  // namespace rubato::server
