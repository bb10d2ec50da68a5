// base/limits.hpp - how this process deals with the limits that the system sets it (ulimit). From
// main, before threads.
#pragma once

#include <cstddef>

#include "base/result.hpp"

namespace rubato {

// As many open files as the system permits: each connection is one. And a file that may not grow
// any further is an error of the call (EFBIG). By default it ends the process (SIGXFSZ). Both are
// wishes.
void live_within_limits();

// BadInput where the address space is too small for a node: OpenBLAS would ask for its buffers for
// ever, and ZeroMQ abort without its threads.
[[nodiscard]] Result<void> check_address_space();

// BadInput where this process may have fewer open files than it needs beside `connections`, or
// start fewer than `count` threads (ulimit -u counts them): ZeroMQ would abort. check_threads()
// starts so many for a moment.
[[nodiscard]] Result<void> check_descriptors(std::size_t connections);
[[nodiscard]] Result<void> check_threads(std::size_t count);

}  // namespace rubato
