// emulation/throttle/link_check.hpp - what a relay delivers on this machine, measured with bytes of
// our own over loopback: its rate each way, and its latency. A slow link gets few bytes.
// Jitter and losses are left out.
// Threads: the caller's, and one that sends. Blocks for one to some seconds.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::emulation {

struct LinkCheck {
  // 0: not measured, because the link has no limit there, or is too slow to be measured in time.
  double up_bytes_per_second = 0;
  double down_bytes_per_second = 0;
  double latency_seconds = 0;  // one way, the median of some short messages
};

// Io where a socket fails or nothing arrives in time.
[[nodiscard]] Result<LinkCheck> measure_link(const cluster::LinkModel& link, std::uint64_t seed);

// "up 8 Mb/s asked, 8.01 got; down 20 Mb/s asked, 20.1 got; latency 25 ms asked, 25.2 got"
std::string to_text(const cluster::LinkModel& link, const LinkCheck& check);

// Whether rates are within 5 %, and the latency within 5 % or 2 ms.
bool delivers(const cluster::LinkModel& link, const LinkCheck& check);

// Measures the link, again if it missed. Returns: the text; BadInput with it when the last of three
// attempts missed, too.
[[nodiscard]] Result<std::string> check_link(const cluster::LinkModel& link, std::uint64_t seed);

}  // namespace rubato::emulation
