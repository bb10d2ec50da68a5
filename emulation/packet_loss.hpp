// emulation/packet_loss.hpp - what a lost packet costs a link: it is sent again, and what follows
// it on its connection waits for it.
// Source: RFC 8985 (RACK), section 6.2: TCP notices the loss a round trip and a quarter of one
// after the packet was sent. The round trip is that of the host's own link: twice its latency.
// Pure. Units: bytes, seconds.
#pragma once

#include <cmath>

#include "base/rng.hpp"
#include "base/time.hpp"

namespace rubato::emulation {

inline constexpr double kPacketBytes = 1448;  // payload of a TCP segment in an Ethernet frame

// How much later than others a packet arrives that was lost once.
inline Duration sent_again_after(double latency_seconds) {
  return Duration::from_seconds(1.25 * 2 * latency_seconds);
}

// How many packets pass behind the last lost one, as if there were endlessly many before.
// Requires: 0 < loss < 1.
inline double packets_since_loss(Rng& rng, double loss) {
  return std::floor(std::log(1 - rng.uniform()) / std::log(1 - loss));
}

}  // namespace rubato::emulation
