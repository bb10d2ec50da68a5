// tests/simulation/kinds.hpp - the kinds of violation: each is a promise that was not kept. A plan
// that broke one, made as small as it gets, stays in tests/simulation/museum once it is mended.
#pragma once

#include <string_view>
#include <vector>

namespace rubato::simulation {

struct KindRow {
  std::string_view kind;
  std::string_view promise;
};

inline const std::vector<KindRow>& violation_kinds() {
  static const std::vector<KindRow> kRows = {
      {"above-limits", "no message is above the limits of the protocol"},
      {"answered-lost", "a server that had what it answered on its disk has it when it comes back"},
      {"crash", "no core breaks an invariant of its own"},
      {"end-lost", "a run that ends in order has its end on disk, or says what it lacks"},
      {"ended-early", "a run does not end before it is told to"},
      {"exactly-once", "each commit is in the parameters once, and an answered one is in them"},
      {"false-word", "a process that is told of a later one of its name has one"},
      {"journal-refused", "a damaged journal does not end the run"},
      {"left-out", "a worker is left out only while it is at fault"},
      {"loss-overstated", "no more commits are lost than the scheduler says"},
      {"loss-untold", "no fewer"},
      {"mixed-moments", "shards that go back together go back to one moment"},
      {"mixed-seeds", "training starts with the initial values of one worker"},
      {"no-common-snapshot", "servers that had a snapshot in common have one"},
      {"no-orders", "the scheduler orders snapshots while it trains"},
      {"no-progress", "once everything is healed, every worker commits"},
      {"not-gone", "once the run ends, every process ends"},
      {"old-snapshots", "once everything is healed, snapshots become newer"},
      {"refused", "no node ends with exit code 2 that has no fault"},
      {"refused-at-end", "a worker that hears of the end ends with 0"},
      {"replay-differs", "the scheduler that replays is in the state of the one that died"},
      {"resharded", "another number of servers goes on from what the shards had"},
      {"serial-bits", "the parameters have the bits of a serial run"},
      {"shut-out", "a server can come back, whatever its disk has"},
      {"snapshot-content", "a shard that goes back has what was saved"},
      {"snapshot-missing", "a shard is told to go back only to what it has"},
      {"spins", "no core wants to be woken again and again at one instant"},
      {"ssp-bound", "no worker is more than s commits ahead of the slowest"},
      {"stop-unheard", "a process ends with its run even if its connection breaks then"},
      {"worker-values", "a worker trains on what the shards have"},
      {"wrong-shard", "a server keeps its number and its range"},
  };
  return kRows;
}

}  // namespace rubato::simulation
