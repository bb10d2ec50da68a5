// emulation/critical_path.hpp - what the progress of a virtual run waited for. Every activity knows
// the one whose end let it begin: a step begins at the end of the last one or with a reply, a reply
// leaves when the last commit of its round is there. From the last reply of a worker these causes
// lead back to the start, without a gap. That is the worker's path. A part's share is its share of
// the paths of all workers, each weighed by the worker's steps. Under BSP all paths are one. Where
// nobody waits for others each worker has its own; then a share says by how much the rate of steps
// grows if the part gets faster. Pure. Units: virtual time. Errors: none. Threads: one owner.
// Memory: 24 bytes for each of the last kActivitiesMax activities.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/run_record.hpp"
#include "base/time.hpp"
#include "base/trace.hpp"

namespace rubato::emulation {

class CriticalPath {
 public:
  using Node = std::uint32_t;
  using Cause = std::uint64_t;  // number of an activity, from 1 on; 0: the run's start
  static constexpr std::uint64_t kActivitiesMax = std::uint64_t{1} << 21;

  // `cause` let it begin, and it ended at `at`. Returns: its number; `cause` where it took no time.
  // Requires: `cause` has ended by then.
  Cause add(Cause cause, Instant at, PathPart::What what, Node node);

  // The activity whose end is being served: what is done now, it has caused.
  Cause current = 0;

  // The end of a path, and its weight.
  struct End {
    Cause cause = 0;
    double weight = 0;
  };
  // Shares since `started`, or since the first activity that is still known. Largest first; they
  // add up to 1. Empty: there is no path. `name_of`: of a node.
  std::vector<PathPart> shares(const std::vector<End>& ends, Instant started,
                               const std::function<std::string(Node)>& name_of) const;

  // One path as spans, a lane for each node and activity.
  void draw(Cause end, Instant started, const std::function<std::string(Node)>& name_of,
            Trace& trace, const std::string& title) const;

 private:
  struct Activity {
    Instant at;
    Cause cause = 0;
    Node node = 0;
    PathPart::What what = PathPart::What::Compute;
  };
  const Activity* find(Cause number) const;
  // When paths begin.
  Instant first(Instant started) const { return std::max(started, forgotten_); }
  // The part of an activity after `from`: the end of its cause, or `from` if that is later.
  Instant begin(const Activity& activity, Instant from) const;

  std::vector<Activity> activities_;  // a ring: of number n at (n - 1) % kActivitiesMax
  std::uint64_t count_ = 0;
  Instant forgotten_ = {};  // all that is not known any more had ended by then
};

}  // namespace rubato::emulation
