// emulation/throttle/link_check.hpp - what a link delivers that this machine shapes, measured with
// bytes of our own: its rate each way, and its latency. A slow link gets few bytes.
// Threads: the caller's, and one that sends. Blocks for some seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::emulation {

struct LinkCheck {
  // 0: not measured, because the link has no limit there, or is too slow to be measured in time.
  double up_bytes_per_second = 0;
  double down_bytes_per_second = 0;
  // One way, of some short messages: the least; the median where the link has jitter or losses.
  double latency_seconds = 0;
};

// Of a relay, over loopback, without jitter and losses. Io where a socket fails or nothing arrives
// in time.
[[nodiscard]] Result<LinkCheck> measure_link(const cluster::LinkModel& link, std::uint64_t seed);

// Of the way from here to `endpoint`, at which `listener` hears. After a pause a shaper may let a
// burst pass, so bytes that do not count go first. Errors as above.
[[nodiscard]] Result<LinkCheck> measure_way(const std::string& endpoint, const Descriptor& listener,
                                            const cluster::LinkModel& link);

// "up 8 Mb/s asked, 8.01 got; down 20 Mb/s asked, 20.1 got; latency 25 ms asked, 25.2 got"
std::string to_text(const cluster::LinkModel& link, const LinkCheck& check);

// Whether rates are within 5 %, and the latency within 5 % or 2 ms.
bool delivers(const cluster::LinkModel& link, const LinkCheck& check);

// Calls `measure`, and again a second later if the link missed. Returns: the text; BadInput with it
// when the last of six attempts missed, too.
using MeasureLink = std::function<Result<LinkCheck>()>;
[[nodiscard]] Result<std::string> check_link(const cluster::LinkModel& link,
                                             const MeasureLink& measure);
// check_link() that measures by measure_link().
[[nodiscard]] Result<std::string> check_link(const cluster::LinkModel& link, std::uint64_t seed);

}  // namespace rubato::emulation
