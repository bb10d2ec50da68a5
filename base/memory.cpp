#include "base/memory.hpp"

#include <cstdint>
#include <cstdlib>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rubato {

void keep_freed_memory([[maybe_unused]] std::size_t most) {
#if defined(__GLIBC__)
  if (std::getenv("MALLOC_TRIM_THRESHOLD_")) return;
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // a chunk is at most 16 MiB
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(most));
#endif
}

void share_arenas() {
#if defined(__GLIBC__)
  if (!std::getenv("MALLOC_ARENA_MAX")) mallopt(M_ARENA_MAX, 2);
#endif
}

std::size_t before_large_page(const void* first) {
  return (kLargePage - reinterpret_cast<std::uintptr_t>(first) % kLargePage) % kLargePage;
}

void prefer_large_pages([[maybe_unused]] const void* first, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, Linux 6.1; Debian 12's headers lack it
  const std::size_t before = before_large_page(first);
  if (bytes < before + kLargePage) return;
  auto* const begin = static_cast<char*>(const_cast<void*>(first)) + before;
  const std::size_t whole = (bytes - before) / kLargePage * kLargePage;
  madvise(begin, whole, MADV_HUGEPAGE);  // by and by
  madvise(begin, whole, kCollapse);      // now
#endif
}

}  // namespace rubato
