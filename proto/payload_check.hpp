// proto/payload_check.hpp - does a payload belong to the message that it came with?
// Pure. Errors: Corrupt, one line; nothing of the payload itself is read.
#pragma once

#include <cstddef>

#include "base/result.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {

// A chunk (Commit or Parameters) lies in its slice, and the payload can hold it in its codec; other
// bodies have none.
[[nodiscard]] Result<void> check_payload(const Body& body, std::size_t payload_bytes);

}  // namespace rubato::proto
