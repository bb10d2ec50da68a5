// cli/interrupt.hpp - Ctrl-C and SIGTERM as a stop token, for every command.
#pragma once

#include <stop_token>

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

// Returns: what work() returns. An interrupt meanwhile ends the process at once: for work that
// cannot be asked to stop and leaves nothing behind, such as reading data.
template <class Work>
auto interruptible(const std::stop_token& stop, Work work) {
  const std::stop_callback on_stop(stop, &end_interrupted);
  return work();
}

}  // namespace rubato::cli
