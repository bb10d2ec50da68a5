// scheduler/worker_watch.hpp - which workers keep others waiting, make no commits, or have their
// commits refused again and again. Each worker is judged by its own pace. It says what it sees; the
// scheduler decides what to do. Pure: `now` never decreases. Cost: look() is O(workers). Threads:
// one owner. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato::scheduler {

struct WatchOptions {
  // A worker that others wait for is stalled after so long without a commit, or kStalledFactor
  // times its usual time, whichever is longer. 0: never.
  Duration stalled = Duration::from_seconds(30);
  Duration first_commit = Duration::from_seconds(300);  // its limit before the first commit
};
// A worker may be 30 times as slow for a while, and still not be taken for one that hangs.
inline constexpr double kStalledFactor = 40;
// It is named before: after so many times its usual time, and at least so long.
inline constexpr double kWarnFactor = 10;
// While others wait for it; or a third of WatchOptions::stalled, if that is shorter.
inline constexpr Duration kWarnWaitMin = Duration::from_seconds(10);
inline constexpr Duration kWarnIdleMin = Duration::from_seconds(30);  // while nobody does
inline constexpr Duration kWarnFirst = Duration::from_seconds(60);    // before its first commit
// No other worker's commit was applied for so long: it is not this worker that is wrong.
inline constexpr Duration kAloneMax = Duration::from_seconds(30);

class WorkerWatch {
 public:
  explicit WorkerWatch(const WatchOptions& options) : options_(options) {}

  // It may train from now on. `first`: its time until the first commit, where that is known.
  void on_start(Instant now, WorkerId worker, std::optional<Duration> first = {});
  void on_gone(WorkerId worker) { entries_.erase(worker); }
  // Returns: a line, if it commits again after a warning.
  std::optional<std::string> on_progress(Instant now, WorkerId worker,
                                         const proto::Progress& progress);

  struct Verdict {
    // Stalled: others wait in vain. Refused: its commits are. Useless: those of all are, so the
    // parameters are of no use.
    enum class Kind { Warning, Stalled, Refused, Useless } kind = Kind::Warning;
    WorkerId worker;
    std::string text;  // "has not committed for 40 s; 3 workers wait for it"
    Duration waited;   // Stalled: by others
    Duration allowed;  // Stalled
  };
  // Requires: of a member that was started. `members`: of the cluster.
  std::optional<Verdict> on_standing(Instant now, const proto::Standing& standing,
                                     std::size_t members);
  // Nobody could commit until now: each time begins anew.
  void excuse(Instant now) {
    for (auto& [worker, entry] : entries_) entry.since = now;
  }
  // Workers that have not committed for long. Call it now and then.
  std::vector<Verdict> look(Instant now);

 private:
  struct Entry {
    Instant since;   // its last commit, or its start
    Duration usual;  // from commit to commit, without its waiting for others; 0: it has made none
    Duration first;
    std::uint64_t steps = 0;
    bool stepped = false;  // since its start
    std::uint64_t commits = 0;
    Duration wait;
    Duration warn_at;  // the next warning, from `since`; 0: as usual
    bool warned = false;
    std::optional<Instant> alone_since;  // refused in a row, and nobody else was applied
  };
  std::optional<Verdict> on_waited(Entry& entry, const proto::Standing& standing) const;
  std::optional<Verdict> on_refused(Instant now, Entry& entry, const proto::Standing& standing,
                                    std::size_t members) const;

  WatchOptions options_;
  std::map<WorkerId, Entry> entries_;
  std::optional<Instant> awaited_;  // when a server last said that it holds commits for somebody
};

// "too large 12, not finite 3".
std::string in_words(const proto::RefusedCounts& refused);

}  // namespace rubato::scheduler
