// base/prefetch.hpp - tells the processor what will be read soon, so that it need not be waited for
// then. A hint: it changes nothing but the time. Threads: any.
#pragma once

namespace rubato {

// The cache lines from `begin` to `end`.
inline void prefetch(const void* begin, const void* end) {
  constexpr int kLine = 64;
  const auto* last = static_cast<const char*>(end);
  for (const auto* at = static_cast<const char*>(begin); at < last; at += kLine)
    __builtin_prefetch(at);
}

}  // namespace rubato
