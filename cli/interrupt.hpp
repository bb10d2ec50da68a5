// cli/interrupt.hpp - Ctrl-C and SIGTERM as a stop token, for every command.
#pragma once

#include <stop_token>
#include <utility>

#include "nodes/stop.hpp"

namespace rubato::cli {

inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitMissed = 3;  // the target

// Call once, before other threads: blocks both signals in all threads to come, whose system calls
// they would cut short, and takes them on a thread of its own. A second signal ends the process at
// once.
std::stop_token watch_interrupts();

// Whether the first signal was SIGTERM: a service manager ends this process, and maybe starts it
// again later.
bool was_terminated();

// Ends the process at once (exit 130).
[[noreturn]] void end_interrupted();

// An interrupt as nodes take it: work that cannot be cut short ends with the process.
inline nodes::Stop process_stop(std::stop_token stop) {
  return {std::move(stop), &end_interrupted, &was_terminated};
}

}  // namespace rubato::cli
