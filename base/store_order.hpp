// base/store_order.hpp - keeps stores in order in memory that outlives this process.
// A killed process leaves its mapped files as they were between two of its stores. The compiler may
// move stores; it moves none across this call. Not for threads. Threads: any.
#pragma once

#include <atomic>

namespace rubato {

inline void keep_store_order() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace rubato
