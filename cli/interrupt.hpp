// cli/interrupt.hpp - Ctrl-C, SIGTERM and SIGHUP as a stop token, for every command.
// The first signal counts: a command ends by itself soon after it, or the process ends within a
// second, whatever it reads or computes. The exit code is 128 and the number of that signal.
// A signal that is ignored when the process begins stays ignored, as with nohup.
#pragma once

#include <stop_token>
#include <utility>

#include "nodes/stop.hpp"

namespace rubato::cli {

inline constexpr int kExitMissed = 3;  // the target

// Call first. What arrives before watch_interrupts() is kept for it.
void catch_interrupts();

// Call once, before other threads: blocks the signals in all threads to come, whose system calls
// they would cut short, and takes them on a thread of its own. A second signal ends the process at
// once.
std::stop_token watch_interrupts();

// While one lives, the first signal lets the command put in order what it has, however long that
// takes: the nodes of a run, its results. Threads: any.
class InOrder {
 public:
  InOrder();
  ~InOrder();
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;
};

// 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
int exit_interrupted();

// Whether the first signal was SIGTERM: a service manager ends this process, and maybe starts it
// again later.
bool was_terminated();

// Ends the process at once. A run that has not begun leaves nothing.
[[noreturn]] void end_interrupted();

// An interrupt as nodes take it: work that cannot be cut short ends with the process.
inline nodes::Stop process_stop(std::stop_token stop) {
  return {std::move(stop), &end_interrupted, &was_terminated};
}

}  // namespace rubato::cli
