#include "emulation/critical_path.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.hpp"

namespace rubato::emulation {
namespace {

// A lane holds more events between two flushes.
constexpr std::size_t kSpansAFlush = kTraceRingEvents / 2;

Span span_of(PathPart::What what) {
  switch (what) {
    case PathPart::What::Compute:
      return Span::Step;
    case PathPart::What::Apply:
      return Span::Apply;
    case PathPart::What::Timer:
    case PathPart::What::Absent:
      return Span::Wait;
    case PathPart::What::Up:
    case PathPart::What::Down:
    case PathPart::What::Latency:
    case PathPart::What::Communicate:
      return Span::Communicate;
  }
  return Span::Control;
}

}  // namespace

CriticalPath::Cause CriticalPath::add(Cause cause, Instant at, PathPart::What what, Node node) {
  if (const Activity* before = find(cause); before && before->at == at) return cause;
  const Activity activity{at, cause, node, what};
  if (count_ < kActivitiesMax) {
    activities_.push_back(activity);
  } else {
    Activity& oldest = activities_[count_ % kActivitiesMax];
    forgotten_ = std::max(forgotten_, oldest.at);
    oldest = activity;
  }
  return ++count_;
}

const CriticalPath::Activity* CriticalPath::find(Cause number) const {
  if (number == 0 || number + activities_.size() <= count_) return nullptr;
  return &activities_[(number - 1) % kActivitiesMax];
}

Instant CriticalPath::begin(const Activity& activity, Instant from) const {
  const Activity* cause = find(activity.cause);
  return cause ? std::max(from, cause->at) : from;
}

// Paths that meet go on as one, so each activity is looked at once: causes have smaller numbers.
std::vector<PathPart> CriticalPath::shares(const std::vector<End>& ends, Instant started,
                                           const std::function<std::string(Node)>& name_of) const {
  const Instant from = first(started);
  std::vector<double> weights(activities_.size(), 0.0);
  const auto weight_of = [&](Cause number) -> double& {
    return weights[(number - 1) % kActivitiesMax];
  };
  for (const End& end : ends)
    if (find(end.cause)) weight_of(end.cause) += end.weight;
  std::map<std::pair<Node, PathPart::What>, double> seconds;
  double total = 0;
  for (Cause number = count_; find(number); --number) {
    const double weight = weight_of(number);
    const Activity& activity = *find(number);
    if (weight == 0 || activity.at <= from) continue;
    const double spent = weight * (activity.at - begin(activity, from)).seconds();
    seconds[{activity.node, activity.what}] += spent;
    total += spent;
    if (find(activity.cause)) weight_of(activity.cause) += weight;
  }
  std::vector<PathPart> parts;
  for (const auto& [part, spent] : seconds)
    if (spent > 0) parts.push_back({name_of(part.first), part.second, spent / total});
  std::ranges::stable_sort(parts, std::ranges::greater(), &PathPart::share);
  return parts;
}

void CriticalPath::draw(Cause end, Instant started, const std::function<std::string(Node)>& name_of,
                        Trace& trace, const std::string& title) const {
  const Instant from = first(started);
  std::vector<const Activity*> path;
  for (const Activity* at = find(end); at && at->at > from; at = find(at->cause))
    path.push_back(at);
  const TraceProcess process = trace.process(title);
  std::size_t drawn = 0;
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const Activity& activity = **at;
    const Instant began = begin(activity, from);
    if (began == activity.at) continue;
    process.lane(path_name(name_of(activity.node), activity.what))
        ->span(span_of(activity.what), began, activity.at);
    if (++drawn % kSpansAFlush == 0) trace.flush();
  }
}

}  // namespace rubato::emulation
