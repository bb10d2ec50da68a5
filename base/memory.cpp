#include "base/memory.hpp"

#include <cstdlib>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace rubato {

void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);  // a chunk is at most 16 MiB
  mallopt(M_TRIM_THRESHOLD, 256 * kMiB);
#endif
}

}  // namespace rubato
