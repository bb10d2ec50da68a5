#include "worker/server_watch.hpp"

#include <algorithm>

#include "base/absence.hpp"

namespace rubato::worker {

Instant ServerWatch::due(std::uint32_t shard) const {
  return std::max(watch_[shard].heard, watch_[shard].probed) + timing_.probe_after;
}

ServerWatch::Due ServerWatch::poll(std::uint32_t shard, Instant now) {
  Shard& watch = watch_[shard];
  const Instant at = due(shard);
  watch.heard = heard_but_for_absence(watch.heard, at, now);
  if (now >= watch.heard + timing_.server_timeout) return Due::GiveUp;
  if (now < at) return Due::Nothing;
  watch.probed = now;
  return Due::Probe;
}

}  // namespace rubato::worker
