// scheduler/hearing.hpp - who was heard when: which workers are silent for too long, which servers
// are absent, and whether it is this node that is cut off.
// A silent worker is lost. A silent server is absent, and waited for; it is lost after a longer
// time. If nobody at all is heard, this node is the one that is cut off: nobody is found lost.
// Pure. Units: servers and workers by number. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "scheduler/run_phase.hpp"
#include "scheduler/silence.hpp"

namespace rubato::scheduler {

class Hearing {
 public:
  // `lost_after`: a worker's silence that loses it, and a server's that makes it absent.
  // `absent_max`: a server's silence that loses it, and everybody's that ends the run.
  Hearing(Duration lost_after, Duration absent_max);

  // A member spoke, or joined. Returns: this node was cut off until now, and said so.
  bool on_worker(Instant now, WorkerId worker);
  void forget_worker(WorkerId worker) { workers_.forget(worker.value); }
  struct ServerHeard {
    bool again = false;                 // as on_worker() returns
    std::optional<Duration> away = {};  // how long it was silent, if it was absent
  };
  // A server spoke, perhaps for the first time. Servers come in the order of their numbers.
  ServerHeard on_server(Instant now, std::uint32_t server);
  // Other servers come in their place.
  void forget_servers();
  // Another process goes on: nobody could be heard until now. `members`: there are some, and new
  // processes of them take their time to read their data.
  void on_return(Instant now, bool members);

  struct CutOff {
    Duration silence;       // of everybody
    bool news = false;      // for the first time since somebody was heard
    bool for_good = false;  // for so long that the run ends
  };
  // Whether this node is cut off. To be asked before the three below; then nobody is lost.
  std::optional<CutOff> cut_off(Instant now);
  // Members that are lost, by number. The caller then forgets each.
  std::vector<WorkerId> lost_workers(Instant now);
  // Servers that are silent for too long: from now on they count as absent.
  std::vector<std::uint32_t> newly_absent(Instant now);
  // Those that are absent for too long.
  std::vector<std::uint32_t> lost_servers(Instant now) { return absent_.lost(now); }

  bool is_cut_off() const { return cut_off_; }
  bool absent(std::uint32_t server) const { return since_[server].absent.has_value(); }
  bool any_absent() const;
  // Since when a server has been heard without a gap.
  Instant present_since(std::uint32_t server) const { return since_[server].present; }
  // After a return: no worker has been heard yet.
  bool awaits_workers() const { return workers_until_.has_value(); }
  std::optional<Instant> poll_wakeup(RunPhase phase) const;

 private:
  struct Server {
    Instant heard;                       // the last time; 0: not since on_return()
    Instant present;                     // since then without a gap
    std::optional<Instant> absent = {};  // found so; exactly then it is in absent_
  };
  bool somebody(Instant now);

  Duration lost_after_, absent_max_;
  Silence workers_;            // the members
  Silence servers_;            // those that are not absent
  Silence absent_;             // the others, since they were found so
  Silence all_;                // one entry: when anybody was heard
  std::vector<Server> since_;  // by number
  Instant heard_;              // when anybody was
  bool cut_off_ = false;       // found so, since anybody was heard
  // After a return, until a worker is heard: so long none is found lost.
  std::optional<Instant> workers_until_;
};

}  // namespace rubato::scheduler
