// base/memory.hpp - what this process asks of the kernel and of malloc. Errors: none; both are
// wishes. Threads: see each.
#pragma once

#include <cstddef>

namespace rubato {

inline constexpr std::size_t kFreedKept = 256 << 20;  // by a process of ours
// From now on freed memory stays with the process, up to so many bytes of it. By default glibc
// returns the chunks that libzmq receives into to the kernel and faults them in again for the next
// ones (docs/lessons.md). Does nothing with other C libraries, or where MALLOC_TRIM_THRESHOLD_ is
// set. Any thread; the earlier, the better.
void keep_freed_memory(std::size_t most = kFreedKept);

// From now on all threads share a few arenas of malloc. For a process of many threads that build
// large texts now and then: glibc gives eight arenas to a core, and each keeps what its largest
// text took. Does nothing with other C libraries, or where MALLOC_ARENA_MAX is set. Any thread.
void share_arenas();

inline constexpr std::size_t kLargePage = 2 << 20;
// Bytes from `first` to where the next large page can begin.
std::size_t before_large_page(const void* first);

// Asks for pages of 2 MiB under memory that stays where it is and is read at random places: each
// page of 4 KiB costs a walk through the page tables, twice as deep in a virtual machine. What does
// not fill a large page stays as it is; so does all of it where the kernel has none. Any thread.
void prefer_large_pages(const void* first, std::size_t bytes);

}  // namespace rubato
