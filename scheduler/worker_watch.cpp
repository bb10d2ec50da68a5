#include "scheduler/worker_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/words.hpp"

namespace rubato::scheduler {
namespace {

constexpr double kUsualEwma = 0.25;
// A server's word that it holds commits counts for so long; it repeats it with each heartbeat.
constexpr Duration kAwaitedFor = Duration::from_seconds(10);
constexpr std::array kReasons{"not finite", "too large", "of another kind", "out of date"};
static_assert(kReasons.size() == proto::kRefusedReasons);

}  // namespace

std::string in_words(const proto::RefusedCounts& refused) {
  std::string text;
  for (std::size_t i = 0; i < refused.size(); ++i)
    if (refused[i] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kReasons[i], refused[i]);
  return text;
}

void WorkerWatch::on_start(Instant now, WorkerId worker, std::optional<Duration> first) {
  Entry& entry = entries_[worker];
  entry.since = now;
  entry.first = first.value_or(options_.first_commit);
  entry.stepped = false;
  entry.warn_at = {};
  entry.warned = false;
  entry.alone_since.reset();
}

std::optional<std::string> WorkerWatch::on_progress(Instant now, WorkerId worker,
                                                    const proto::Progress& progress) {
  const auto found = entries_.find(worker);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  if (progress.steps > entry.steps) entry.stepped = true;
  entry.steps = progress.steps;
  if (progress.commits <= entry.commits) return std::nullopt;
  const Duration took = now - entry.since;
  const auto number = static_cast<double>(progress.commits - entry.commits);
  const Duration own = std::max((took - (progress.wait - entry.wait)) * (1 / number), Duration{1});
  entry.usual = entry.usual == Duration{} ? own : entry.usual * (1 - kUsualEwma) + own * kUsualEwma;
  entry.commits = progress.commits;
  entry.wait = progress.wait;
  entry.since = now;
  entry.warn_at = {};
  if (!std::exchange(entry.warned, false)) return std::nullopt;
  return fmt::format("commits again, after {:.0f} s", took.seconds());
}

std::optional<WorkerWatch::Verdict> WorkerWatch::on_standing(Instant now,
                                                             const proto::Standing& standing,
                                                             std::size_t members) {
  const auto found = entries_.find(standing.worker);
  if (found == entries_.end()) return std::nullopt;
  if (standing.waited > Duration{}) {
    awaited_ = now;
    if (auto verdict = on_waited(found->second, standing)) return verdict;
  }
  return on_refused(now, found->second, standing, members);
}

std::optional<WorkerWatch::Verdict> WorkerWatch::on_waited(Entry& entry,
                                                           const proto::Standing& standing) const {
  const bool first = standing.usual == Duration{};
  // Only who makes steps may need long for its first commit.
  const Duration more = !first          ? standing.usual * kStalledFactor
                        : entry.stepped ? entry.first
                                        : Duration{};
  const Duration allowed = std::max(options_.stalled, more);
  const bool ever = options_.stalled > Duration{};
  const std::string what = fmt::format(
      "has not committed {} {:.0f} s; {} for it", first ? "yet, for" : "for",
      standing.waited.seconds(),
      counted(standing.waiting, "worker") + (standing.waiting == 1 ? " waits" : " wait"));
  if (ever && standing.waited >= allowed)
    return Verdict{Verdict::Kind::Stalled, standing.worker,
                   fmt::format("{}: they go on without it", what), standing.waited, allowed};
  const Duration least = ever ? std::min(kWarnWaitMin, options_.stalled * (1.0 / 3)) : kWarnWaitMin;
  const Duration from = std::max(least, standing.usual * kWarnFactor);
  if (standing.waited < std::max(from, entry.warn_at)) return std::nullopt;
  entry.warn_at = standing.waited * 2;
  entry.warned = true;
  return Verdict{
      Verdict::Kind::Warning,
      standing.worker,
      what + (ever ? fmt::format("; they go on without it after {:.0f} s", allowed.seconds())
                   : std::string()),
      {},
      {}};
}

std::optional<WorkerWatch::Verdict> WorkerWatch::on_refused(Instant now, Entry& entry,
                                                            const proto::Standing& standing,
                                                            std::size_t members) const {
  if (standing.in_a_row < proto::kRefusedInARow) {
    entry.alone_since.reset();
    return std::nullopt;
  }
  const std::string refused = fmt::format("{} commits in a row were refused ({})",
                                          standing.in_a_row, in_words(standing.refused));
  if (standing.others > 0) return Verdict{Verdict::Kind::Refused, standing.worker, refused, {}, {}};
  if (!entry.alone_since) entry.alone_since = now;
  if (members > 1 && now - *entry.alone_since < kAloneMax) return std::nullopt;
  return Verdict{Verdict::Kind::Useless,
                 standing.worker,
                 refused + (members > 1 ? ", and no other worker's was applied" : ""),
                 {},
                 {}};
}

std::vector<WorkerWatch::Verdict> WorkerWatch::look(Instant now) {
  std::vector<Verdict> all;
  // Who waits for somebody else commits nothing, either.
  if (awaited_ && now - *awaited_ < kAwaitedFor) return all;
  for (auto& [worker, entry] : entries_) {
    const bool first = entry.usual == Duration{};
    const Duration from = first ? kWarnFirst : std::max(kWarnIdleMin, entry.usual * kWarnFactor);
    const Duration silent = now - entry.since;
    if (silent < std::max(from, entry.warn_at)) continue;
    entry.warn_at = silent * 2;
    entry.warned = true;
    const std::string usual =
        first ? std::string(", since it joined")
              : fmt::format("; its usual time is {:.2g} s", entry.usual.seconds());
    all.push_back({Verdict::Kind::Warning,
                   worker,
                   fmt::format("has not committed for {:.0f} s{}", silent.seconds(), usual),
                   {},
                   {}});
  }
  return all;
}

}  // namespace rubato::scheduler
