#include "proto/payload_check.hpp"

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "proto/compression.hpp"

namespace rubato::proto {
namespace {

template <class Chunk>
Result<void> check_chunk(const char* name, const Chunk& m, std::size_t payload_bytes) {
  if (m.count > m.total || m.offset > m.total - m.count)
    return fail(ErrorCode::Corrupt,
                fmt::format("{} of {} elements at {} does not fit a slice of {}", name, m.count,
                            m.offset, m.total));
  if (m.count == 0 && m.total != 0)
    return fail(ErrorCode::Corrupt,
                fmt::format("{} is an empty chunk of a slice of {} elements", name, m.total));
  if (const auto fits = check_compressed_bytes(m.codec, m.count, payload_bytes); !fits)
    return fail(ErrorCode::Corrupt, fmt::format("{} of {}", name, fits.error().message));
  return {};
}

}  // namespace

Result<void> check_payload(const Body& body, std::size_t payload_bytes) {
  if (const auto* commit = std::get_if<Commit>(&body))
    return check_chunk("Commit", *commit, payload_bytes);
  if (const auto* parameters = std::get_if<Parameters>(&body))
    return check_chunk("Parameters", *parameters, payload_bytes);
  if (payload_bytes != 0)
    return fail(ErrorCode::Corrupt, fmt::format("{} with a payload", body_name(body)));
  return {};
}

void look_at(const Body& body, Payload& payload) {
  const auto* commit = std::get_if<Commit>(&body);
  if (!commit || commit->codec != PayloadCodec::F32) {
    payload.set_checksum(checksum(payload.bytes()));
  } else {
    const FloatsSeen seen = look_through(payload.bytes());
    payload.set_checksum(seen.checksum);
    payload.set_largest(seen.largest);
  }
}

}  // namespace rubato::proto
