// tests/simulation/kinds.hpp - the kinds of violation: each is a promise that was not kept. And
// those that are known: what still happens, and how often. A kind that is not among them fails the
// test, and so does one that happens more often.
// When one is mended: take its row away, and move its plans from museum/known to museum/mended.
#pragma once

#include <string_view>
#include <vector>

namespace rubato::simulation {

struct KindRow {
  std::string_view kind;
  std::string_view promise;
  int known;  // so many of the seeds 1 to kKnownSeeds may show it; 0: none
};
inline constexpr int kKnownSeeds = 400;

inline const std::vector<KindRow>& violation_kinds() {
  static const std::vector<KindRow> kRows = {
      {"above-limits", "no message is above the limits of the protocol", 0},
      {"answered-lost", "a server that had what it answered on its disk has it when it comes back",
       0},
      {"crash", "no core breaks an invariant of its own", 0},
      {"ended-early", "a run does not end before it is told to", 0},
      {"exactly-once", "each commit is in the parameters once, and an answered one is in them", 0},
      {"false-word", "a process that is told of a later one of its name has one", 0},
      {"journal-refused", "a damaged journal does not end the run", 2},
      {"left-out", "a worker is left out only while it is at fault", 0},
      {"loss-overstated", "no more commits are lost than the scheduler says", 0},
      {"loss-untold", "no fewer", 0},
      {"mixed-moments", "shards that go back together go back to one moment", 0},
      {"mixed-seeds", "training starts with the initial values of one worker", 0},
      {"no-common-snapshot", "servers that had a snapshot in common have one", 0},
      {"no-orders", "the scheduler orders snapshots while it trains", 0},
      {"no-progress", "once everything is healed, every worker commits", 0},
      {"not-gone", "once the run ends, every process ends", 0},
      {"old-snapshots", "once everything is healed, snapshots become newer", 0},
      {"refused", "no node ends with exit code 2 that has no fault", 0},
      {"refused-at-end", "a worker that hears of the end ends with 0", 0},
      {"replay-differs", "the scheduler that replays is in the state of the one that died", 0},
      {"serial-bits", "the parameters have the bits of a serial run", 0},
      {"shut-out", "a server can come back, whatever its disk has", 0},
      {"snapshot-content", "a shard that goes back has what was saved", 0},
      {"snapshot-missing", "a shard is told to go back only to what it has", 0},
      {"spins", "no core wants to be woken again and again at one instant", 0},
      {"ssp-bound", "no worker is more than s commits ahead of the slowest", 0},
      {"stop-unheard", "a process ends with its run even if its connection breaks then", 0},
      {"wrong-shard", "a server keeps its number and its range", 0},
  };
  return kRows;
}

}  // namespace rubato::simulation
