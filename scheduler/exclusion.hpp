// scheduler/exclusion.hpp - the workers that are kept out: those that others waited for in vain,
// for a while, and those whose commits were refused again and again, for good. It also counts the
// refused commits of each worker.
// WorkerWatch says what it sees of members; the scheduler acts; this remembers.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/run_record.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"
#include "scheduler/worker_watch.hpp"

namespace rubato::scheduler {

class Exclusion {
 public:
  // `watch`: nothing: nobody is watched, and nobody is kept out.
  explicit Exclusion(const std::optional<WatchOptions>& watch);

  // Null: nobody is watched.
  WorkerWatch* watch() { return watch_ ? &*watch_ : nullptr; }
  bool watches() const { return watch_.has_value(); }

  // A worker of this name may train from now on. `stranger`: the cluster file does not name it, and
  // it is its first life.
  void on_start(Instant now, WorkerId worker, const std::string& name, bool stranger);

  // `server` says how a member stands: its refused commits count.
  void count_refused(std::uint32_t server, const proto::Standing& standing);
  // Of all shards, the most that one of them has refused, by reason.
  RefusedByReason refused(WorkerId worker) const;

  // Others waited in vain for a worker of this name: it stays away for a while. `unlisted`: the
  // cluster file does not name it. Then strangers stay away, too: it could come back as one.
  void on_stalled(Instant now, const std::string& name, const WorkerWatch::Verdict& verdict,
                  bool unlisted);
  // It has been away for long enough.
  bool may_come_back(Instant now, const std::string& name) const;
  // Whether who has this name is to wait. `went_on`: the process was a member before.
  // `stranger`: as in on_start().
  bool keeps_waiting(Instant now, const std::string& name, bool went_on, bool stranger) const;

  // A process is set aside for good.
  void set_aside(Incarnation incarnation, std::string why);
  // Why it was set aside. Null: it was not.
  const std::string* aside(Incarnation incarnation) const;

 private:
  struct Stall {
    int count = 0;
    Instant until;   // it is not admitted before
    Duration first;  // its time until the first commit, next time
  };
  // A worker's refused commits at one shard. Its counts begin anew with each incarnation.
  struct Refusals {
    proto::RefusedCounts all = {}, last = {};
  };
  std::optional<WatchOptions> options_;
  std::optional<WorkerWatch> watch_;  // exactly if options_
  void stall(Instant now, Stall& stall, const WorkerWatch::Verdict& verdict) const;

  std::map<std::string, Stall> stalls_;                            // by name
  Stall strangers_;                                                // of all unlisted ones
  std::map<Incarnation, std::string> aside_;                       // why
  std::map<WorkerId, std::map<std::uint32_t, Refusals>> refused_;  // by server
};

}  // namespace rubato::scheduler
