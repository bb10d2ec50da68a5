// tests/pause.hpp - lets time pass in a test: between two looks of a loop that has a deadline, or
// where time itself is what is tested. A test that waits for an event waits for the event.
#pragma once

#include <poll.h>

#include "base/time.hpp"

namespace rubato::tests {

inline void let_pass(Duration time) {
  (void)::poll(nullptr, 0, static_cast<int>(time.ms()));
}

}  // namespace rubato::tests
