#include "cluster/value_trace.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace rubato::cluster {

ValueTrace::ValueTrace(std::vector<TracePoint> points, Duration period) : period_(period) {
  RUBATO_CHECK(!points.empty() && points.front().at == Duration{}, "a trace begins at 0");
  for (const TracePoint& point : points) {
    RUBATO_CHECK(points_.empty() || point.at > last_, "a trace goes forward");
    if (points_.empty() || point.value != points_.back().value) points_.push_back(point);
    last_ = point.at;
  }
  RUBATO_CHECK(period == Duration{} || points.back().at < period, "a point beyond the period");
}

double ValueTrace::at(Duration time) const {
  if (period_ > Duration{}) time.ns %= period_.ns;
  const auto next = std::ranges::upper_bound(points_, time, {}, &TracePoint::at);
  return std::prev(next)->value;
}

double ValueTrace::first_above_zero() const {
  const auto found =
      std::ranges::find_if(points_, [](const auto& point) { return point.value > 0; });
  return found == points_.end() ? 0 : found->value;
}

std::optional<Duration> ValueTrace::next_change(Duration time) const {
  Duration turn;  // of the period, when it began
  if (period_ > Duration{}) turn.ns = time.ns - time.ns % period_.ns;
  const auto next = std::ranges::upper_bound(points_, time - turn, {}, &TracePoint::at);
  if (next != points_.end()) return turn + next->at;
  if (period_ == Duration{} || points_.size() == 1) return std::nullopt;
  // The first value is new, or the second one is.
  const bool changes = points_.front().value != points_.back().value;
  return turn + period_ + (changes ? Duration{} : points_[1].at);
}

ValueTrace ValueTrace::from(Duration offset) const {
  if (period_ > Duration{}) offset.ns %= period_.ns;
  std::vector<TracePoint> points{{{}, at(offset)}};
  for (const TracePoint& point : points_)
    if (point.at > offset) points.push_back({point.at - offset, point.value});
  if (period_ > Duration{})
    for (const TracePoint& point : points_)
      if (point.at < offset) points.push_back({point.at + period_ - offset, point.value});
  return ValueTrace(std::move(points), period_);
}

std::optional<Duration> NodeTrace::next_link_change(Duration time) const {
  std::optional<Duration> first;
  for (const ValueTrace* trace : {&up, &down}) {
    const auto next = trace->next_change(time);
    if (next && (!first || *next < *first)) first = next;
  }
  return first;
}

}  // namespace rubato::cluster
