#include "worker/server_watch.hpp"

#include <utility>

#include "base/absence.hpp"

namespace rubato::worker {
namespace {

constexpr double kUsualFades = 0.9;  // an exchange
constexpr double kUnusual = 4;       // times the usual silence

}  // namespace

Duration ServerWatch::first_wait(const Shard& watch) const {
  if (watch.exchanges < kUsualKnown) return timing_.probe_after;
  return std::min(timing_.probe_after, std::max(watch.usual * kUnusual, kProbeSoonest));
}

void ServerWatch::start(Shard& watch, Instant now) const {
  watch.heard = watch.probed = now;
  watch.wait = first_wait(watch);
  watch.asked = watch.told = false;
}

void ServerWatch::begin(Instant now) {
  for (Shard& watch : watch_) {
    if (watch.longest_now > Duration{} && !watch.lost) {
      watch.usual = std::max(watch.longest_now, watch.usual * kUsualFades);
      ++watch.exchanges;
    }
    watch.longest_now = {};
    watch.lost = false;
    start(watch, now);
  }
}

void ServerWatch::on_heard(std::uint32_t shard, Instant now) {
  Shard& watch = watch_[shard];
  const Instant since = heard_but_for_absence(watch.heard, due(shard), now);
  watch.longest = std::max(watch.longest, now - since);
  watch.longest_now = std::max(watch.longest_now, now - since);
  watch.heard = now;
  watch.told = false;
}

bool ServerWatch::on_answer(std::uint32_t shard, std::uint32_t number) {
  Shard& watch = watch_[shard];
  if (!watch.asked || number != watch.number) return false;
  watch.asked = false;
  watch.wait = first_wait(watch);
  return true;
}

Instant ServerWatch::due(std::uint32_t shard) const {
  const Shard& watch = watch_[shard];
  const Duration word = watch.told ? patience(shard) : unusual(shard);
  return std::min(next_probe(watch), watch.heard + word);
}

ServerWatch::Due ServerWatch::poll(std::uint32_t shard, Instant now) {
  Shard& watch = watch_[shard];
  const Instant at = due(shard);
  watch.heard = heard_but_for_absence(watch.heard, at, now);
  if (now < at) return Due::Nothing;
  if (silence(shard, now) >= patience(shard)) return Due::GiveUp;
  if (silence(shard, now) >= unusual(shard) && !std::exchange(watch.told, true)) return Due::Tell;
  if (now < next_probe(watch)) return Due::Nothing;
  if (std::exchange(watch.asked, true)) watch.wait = watch.wait * 2;
  watch.probed = now;
  ++watch.number;
  return Due::Probe;
}

}  // namespace rubato::worker
