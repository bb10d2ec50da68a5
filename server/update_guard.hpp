// server/update_guard.hpp - how an update is read that lies in memory of another process, which may
// change it after it was checked: piece by piece, each copied to the first cache and checked there.
// Pure. Threads: one owner. Errors: none; the owner looks at `changed`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/checksum.hpp"

namespace rubato::server {

struct UpdateGuard {
  float most = 0;        // no element of the update was larger when it was checked
  bool changed = false;  // one is now: the rest of the update was left out
};

// Calls f(at, piece) for pieces of `update`, the elements from `at` on. Without a guard it is one.
template <class F>
void in_checked_pieces(std::span<const float> update, UpdateGuard* guard, F f) {
  if (!guard) {
    f(std::size_t{0}, update);
    return;
  }
  std::array<float, kChecksumBlockBytes / sizeof(float)> copy;  // NOLINT: filled below
  for (std::size_t at = 0; at < update.size() && !guard->changed; at += copy.size()) {
    const auto from = update.subspan(at, std::min(copy.size(), update.size() - at));
    std::memcpy(copy.data(), from.data(), from.size_bytes());
    const auto piece = std::span<const float>(copy).first(from.size());
    guard->changed = !(largest_magnitude(std::as_bytes(piece)) <= guard->most);
    if (!guard->changed) f(at, piece);
  }
}

}  // namespace rubato::server
