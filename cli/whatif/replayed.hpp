// cli/whatif/replayed.hpp - a real run beside the same in virtual time: how far each figure is off,
// and which is explained worst. The table and the JSON of it.
// Pure. Units: seconds, shares in [0, 1]. Errors: none. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/run_record.hpp"
#include "base/terminal.hpp"
#include "report/record_json.hpp"

namespace rubato::cli::whatif {

struct Figure {
  std::string name;  // "commits of pi-0"
  double measured = 0;
  double replayed = 0;
  bool share = false;  // then it is off by the difference, else by the ratio
  // Of the runs in virtual time, whose mean or median `replayed` is.
  double least = 0;
  double most = 0;

  double off() const;
  // What was measured is within the seeds' range, or less than 1 % beyond.
  bool usual() const;
};

struct ReplayedWorker {
  std::string worker;  // empty: all
  Figure steps, commits, compute, wait, communicate;
};

struct Replayed {
  std::string sync;
  std::uint64_t seed = 0;
  std::size_t runs = 0;  // in virtual time
  double seconds = 0;    // of both
  std::vector<ReplayedWorker> workers;
  ReplayedWorker all;          // together
  std::optional<Figure> time;  // to the target; empty: not reached, or there is none
  std::vector<PathPart> path;  // what progress waited for, the mean of the replays
  // The first decision of the tuner that the first replay took otherwise, and that one. Both empty:
  // there is none.
  std::optional<DecisionRecord> decided, decided_otherwise;
};

// `same`: runs as long as the measured one, with one seed each; their means count. `to_target`:
// runs that end at the target; empty: there are none. Requires: a run in `same`.
Replayed replayed(const RunRecord& measured, const std::vector<RunRecord>& same,
                  const std::vector<RunRecord>& to_target);

// The figure that is off most, of those that are not usual if there are any.
Figure worst(const Replayed& all);

std::string replayed_table(const Replayed& all, std::size_t width = kAnyWidth);
// "Time to the target: measured 49.1 s, replayed 45.0 s (42.0 s to 49.5 s)"; empty where there is
// none.
std::string time_text(const Replayed& all);
// "Where the time goes: computing 80.0 % (slow 71.0 %, pi-0 9.0 %), slow's uplink 20.0 %."
std::string path_line(const Replayed& all);
// "Explained worst: commits of pi-0, measured 812, replayed 840, 3.4 % off."
std::string worst_text(const Replayed& all);
// "First other decision: commit rate 4 (a commit costs 0.039 s: search from R=4), replayed 5
// (...)."; empty where there is none.
std::string decision_text(const Replayed& all);
report::Json replayed_json(const Replayed& all);

}  // namespace rubato::cli::whatif
