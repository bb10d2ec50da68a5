#include "worker/server_watch.hpp"

#include <utility>

#include "base/absence.hpp"

namespace rubato::worker {
namespace {

constexpr double kUsualFades = 0.9;  // an exchange
constexpr double kUnusual = 4;       // times the usual silence

}  // namespace

Duration ServerWatch::after(Duration usual) const {
  return std::min(timing_.probe_after, std::max(usual * kUnusual, kProbeSoonest));
}

Duration ServerWatch::first_wait(const Shard& watch) const {
  return watch.exchanges < kUsualKnown ? timing_.probe_after : after(watch.usual);
}

void ServerWatch::on_lost(std::uint32_t shard) {
  Shard& watch = watch_[shard];
  watch.lost = true;
  watch.again = {};
  if (watch.round_trip > Duration{}) watch.wait = after(watch.round_trip);
}

void ServerWatch::start(Shard& watch, Instant now) const {
  watch.heard = watch.probed = now;
  watch.wait = first_wait(watch);
  watch.asked = watch.told = watch.away = false;
  watch.again = {};
}

void ServerWatch::begin(Instant now) {
  for (Shard& watch : watch_) {
    const Duration silence = watch.lost ? watch.round_trip : watch.longest_now;
    if (silence > Duration{}) {
      watch.usual = std::max(silence, watch.usual * kUsualFades);
      watch.exchanges = watch.lost ? std::max(watch.exchanges, kUsualKnown) : watch.exchanges + 1;
    }
    watch.longest_now = watch.round_trip = {};
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
  watch.told = watch.away = false;
}

void ServerWatch::on_more(std::uint32_t shard) {
  watch_[shard].again = {};
}

bool ServerWatch::on_answer(std::uint32_t shard, std::uint32_t number, Instant now) {
  Shard& watch = watch_[shard];
  if (!watch.asked || number != watch.number) return false;
  watch.asked = false;
  watch.round_trip = now - watch.probed;
  watch.again = std::min(timing_.probe_after, std::max(after(watch.round_trip), watch.again * 2));
  watch.wait = watch.again;
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
  watch.away = watch.asked && watch.heard <= watch.probed;
  if (std::exchange(watch.asked, true))
    watch.wait = std::min(watch.wait * 2, std::max(watch.wait, timing_.probe_after));
  else if (watch.exchanges > 0)
    watch.wait = after(watch.usual);  // its answer should not take as long as a gate may
  watch.probed = now;
  ++watch.number;
  return Due::Probe;
}

}  // namespace rubato::worker
