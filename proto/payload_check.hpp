// proto/payload_check.hpp - does a payload belong to the message that it came with, and what is it?
// Pure. Errors: Corrupt, one line.
#pragma once

#include <cstddef>

#include "base/result.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {

// A chunk (Commit or Parameters) lies in its slice, and the payload can hold it in its codec; other
// bodies have none. Nothing of the payload itself is read.
[[nodiscard]] Result<void> check_payload(const Body& body, std::size_t payload_bytes);

// Lets the payload know its checksum and, of an update in float32, its largest element, which is
// asked of every one: one pass, while its bytes are in the cache.
void look_at(const Body& body, Payload& payload);

}  // namespace rubato::proto
