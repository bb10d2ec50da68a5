// base/memory.hpp - how this process treats memory that it freed.
#pragma once

namespace rubato {

// From now on freed memory stays with the process, up to 256 MiB of it. By default glibc returns
// the chunks that libzmq receives into to the kernel and faults them in again for the next ones
// (docs/lessons.md). Once, from main, before threads. Does nothing with other C libraries.
void keep_freed_memory();

}  // namespace rubato
