// scheduler/likely_path.hpp - what the progress of a run waits for, as far as the times that
// workers tell of themselves say it. No event of a real run is known, so this is an estimate of
// what emulation/critical_path.hpp finds in virtual time:
// - A worker that hardly waits for others has a path of its own: it computes and communicates.
// - Where a worker waits, its path leads into the path of the one that waits least.
// - Where several wait least, nobody knows which of them it is. Then a part has no node.
// Links and servers are not told apart. The weights are the workers' steps, as there.
// Pure. Units: seconds since training started. Errors: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/path_part.hpp"

namespace rubato::scheduler {

struct WorkerTimes {
  std::string name;
  std::uint64_t steps = 0;
  double compute = 0;
  double wait = 0;
  double communicate = 0;
  std::uint64_t commits = 0;
  std::uint64_t dropped_commits = 0;  // of them; if most are, nobody waits for it
};

// Largest share first; they add up to 1. Empty: nobody has told of a step yet.
std::vector<PathPart> likely_path(const std::vector<WorkerTimes>& workers);

}  // namespace rubato::scheduler
