// nodes/stop.hpp - how the caller ends what it runs here.
// Threads: the token may be asked from any.
#pragma once

#include <stop_token>

namespace rubato::nodes {

struct Stop {
  std::stop_token token = {};
  // Called when the token is asked while data are read, which cannot be cut short. It may end the
  // process. Null: the data are read to their end first.
  void (*at_once)() = nullptr;
  // Whether another process will go on with the run: then servers and workers are left waiting.
  // Asked after the token. Null: no.
  bool (*for_now)() = nullptr;

  bool requested() const { return token.stop_requested(); }
};

// Returns: what work() returns. For work that cannot be asked to stop and leaves nothing behind.
template <class Work>
auto interruptible(const Stop& stop, Work work) {
  const std::stop_callback on_stop(stop.token, [&stop] {
    if (stop.at_once) stop.at_once();
  });
  return work();
}

}  // namespace rubato::nodes
