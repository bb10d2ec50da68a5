#include "worker/server_watch.hpp"

#include <utility>

#include "base/absence.hpp"

namespace rubato::worker {
namespace {

constexpr double kUsualFades = 0.9;   // an exchange
constexpr double kUnusual = 4;        // times the usual silence
constexpr double kAgainAfter = 0.25;  // of the time without news
constexpr Duration kAwayAfter = Duration::from_seconds(1);

}  // namespace

Duration ServerWatch::overdue(const Shard& watch, Duration soonest) const {
  if (!watch.trip.known()) return timing_.probe_after;
  return std::min(timing_.probe_after, std::max(watch.trip.overdue(), soonest));
}

Duration ServerWatch::after(Duration usual) const {
  return std::min(timing_.probe_after, std::max(usual * kUnusual, kProbeSoonest));
}

Duration ServerWatch::lossy_wait(const Shard& watch, Instant now) const {
  return std::min(timing_.probe_after,
                  std::max(overdue(watch, kProbeSoonestLossy), (now - watch.news) * kAgainAfter));
}

Duration ServerWatch::first_wait(const Shard& watch) const {
  if (watch.lossy > 0) return lossy_wait(watch, watch.news);
  const Duration most = overdue(watch, kProbeLatest);
  return watch.exchanges < kUsualKnown ? most : std::min(most, after(watch.usual));
}

void ServerWatch::on_lost(std::uint32_t shard, Instant now) {
  Shard& watch = watch_[shard];
  watch.lost = true;
  watch.lossy = kSoundAgain;
  watch.news = now;
  watch.wait = lossy_wait(watch, now);
}

void ServerWatch::start(Shard& watch, Instant now) const {
  watch.heard = watch.probed = watch.news = now;
  watch.wait = first_wait(watch);
  watch.asked = watch.told = watch.away = false;
  watch.again = {};
}

void ServerWatch::begin(Instant now) {
  for (Shard& watch : watch_) {
    if (!watch.lost && watch.longest_now > Duration{}) {
      watch.usual = std::max(watch.longest_now, watch.usual * kUsualFades);
      ++watch.exchanges;
      if (watch.lossy > 0) --watch.lossy;
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
  watch.told = watch.away = false;
}

void ServerWatch::on_more(std::uint32_t shard, Instant now) {
  Shard& watch = watch_[shard];
  watch.again = {};
  watch.news = now;
  if (watch.lossy > 0) watch.wait = lossy_wait(watch, now);
}

bool ServerWatch::on_answer(std::uint32_t shard, std::uint32_t number, Instant now) {
  Shard& watch = watch_[shard];
  if (!watch.asked || number != watch.number) return false;
  watch.asked = false;
  const Duration round_trip = now - watch.probed;
  watch.trip.add(round_trip);
  watch.again = std::min(timing_.probe_after, std::max(after(round_trip), watch.again * 2));
  watch.wait = watch.lossy > 0 ? lossy_wait(watch, now) : watch.again;
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
  watch.away = watch.asked && watch.heard <= watch.probed && silence(shard, now) >= kAwayAfter;
  const bool again = std::exchange(watch.asked, true);
  if (watch.lossy > 0)
    watch.wait = lossy_wait(watch, now);
  else if (again)
    watch.wait = std::min(watch.wait * 2, std::max(watch.wait, timing_.probe_after));
  else if (watch.trip.known())
    watch.wait = overdue(watch, kProbeSoonest);  // its answer should not take as long as a gate may
  else if (watch.exchanges > 0)
    watch.wait = after(watch.usual);
  watch.probed = now;
  ++watch.number;
  return Due::Probe;
}

}  // namespace rubato::worker
