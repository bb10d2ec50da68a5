// base/thread_time.hpp - processor time of the calling thread: what it computed, whatever other
// programs did meanwhile. Reading it takes some 0.3 us.
// Errors: none. Threads: any; an instant means nothing to another thread.
#pragma once

#include "base/time.hpp"

namespace rubato {

Instant thread_now();

}  // namespace rubato
