// cluster/value_trace.hpp - values that change over time in steps: the bandwidth, speed and
// availability of a node, as recorded or made up. cluster/trace_files.hpp reads them.
// Not the traces of a profile (base/trace.hpp).
// Pure. Units: time since training started. Threads: values, safe to share. Errors: none.
#pragma once

#include <optional>
#include <vector>

#include "base/time.hpp"

namespace rubato::cluster {

struct TracePoint {
  Duration at;
  double value = 0;
  bool operator==(const TracePoint&) const = default;
};

class ValueTrace {
 public:
  ValueTrace() = default;
  // A value holds until the next point. The last one holds for ever, or with a `period` until its
  // end, when the first begins again.
  // Requires: the first point at 0, each later than the one before, all before the period's end.
  explicit ValueTrace(std::vector<TracePoint> points, Duration period = {});

  bool empty() const { return points_.empty(); }  // no such trace
  // Requires: not empty, time >= 0.
  double at(Duration time) const;
  // The first value above 0: that of a link before training starts, so that nodes can join.
  // Returns: 0 where there is none. Requires: not empty.
  double first_above_zero() const;
  // When the value next changes after `time`. Empty: never.
  std::optional<Duration> next_change(Duration time) const;

  // The trace from `offset` on, which becomes its time 0. Requires: not empty, offset >= 0.
  ValueTrace from(Duration offset) const;

  // Neighbours differ.
  const std::vector<TracePoint>& points() const { return points_; }
  Duration last() const { return last_; }      // the time of the last point, a change or not
  Duration period() const { return period_; }  // 0: it does not repeat

 private:
  std::vector<TracePoint> points_;
  Duration period_;
  Duration last_;
};

// What changes over time on one node. Each may be empty.
struct NodeTrace {
  ValueTrace up = {};         // bytes a second from the node; 0: nothing passes
  ValueTrace down = {};       // to the node
  ValueTrace speed = {};      // a step takes 1 / speed of its usual time
  ValueTrace available = {};  // 1: the worker is there; 0: it is gone

  bool empty() const { return up.empty() && down.empty() && speed.empty() && available.empty(); }
  bool shapes_link() const { return !up.empty() || !down.empty(); }
  // The next change of `up` or `down`.
  std::optional<Duration> next_link_change(Duration time) const;
};

}  // namespace rubato::cluster
