// emulation/virtual_event.hpp - what the virtual cluster's queue holds: an event, its instant and
// its node, in the order in which they are served.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/time.hpp"
#include "emulation/virtual_network.hpp"

namespace rubato::emulation {

struct Event {
  Instant at;
  std::uint64_t order = 0;  // ties: first scheduled, first served
  enum class Kind { Network, Arrive, Process, Wakeup, StepEnd, Evaluated } kind = Kind::Network;
  VirtualNetwork::Node node = 0;
  std::uint64_t tag = 0;
  bool operator>(const Event& other) const {
    return std::tie(at, order) > std::tie(other.at, other.order);
  }
};

}  // namespace rubato::emulation
