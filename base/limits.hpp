// base/limits.hpp - how this process deals with the limits that the system sets it (ulimit). From
// main, before threads.
#pragma once

#include "base/result.hpp"

namespace rubato {

// As many open files as the system permits: each connection is one. And a file that may not grow
// any further is an error of the call (EFBIG). By default it ends the process (SIGXFSZ). Both are
// wishes.
void live_within_limits();

// BadInput where the address space is too small for a node: OpenBLAS would ask for its buffers for
// ever, and ZeroMQ abort without its threads.
[[nodiscard]] Result<void> check_address_space();

}  // namespace rubato
