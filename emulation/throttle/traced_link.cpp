#include "emulation/throttle/traced_link.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rubato::emulation {
namespace {

// A rate of 0 ends with the next change of the trace, which may come late.
constexpr Duration kLateness = Duration::from_seconds(5);

}  // namespace

TracedLink::TracedLink(Relay& relay, const cluster::LinkModel& link, LinkChanges changes)
    : relay_(relay), link_(link), changes_(std::move(changes)) {
  if (changes_.trace && changes_.trace->shapes_link()) set(std::nullopt);
}

void TracedLink::follow(Instant began) {
  if (changes_.empty() || thread_.joinable()) return;
  set(std::max(steady_now() - began, Duration{}));
  thread_ = std::jthread([this, began](const std::stop_token& stop) { run(stop, began); });
}

void TracedLink::locate(proto::NodeId node, const std::string& endpoint) {
  const std::lock_guard lock(mutex_);
  endpoints_[node] = endpoint;
  located_ = true;
  news_.notify_all();
}

// Requires: the lock is held, or there is no thread yet.
void TracedLink::set(std::optional<Duration> at) {
  Duration up, down;  // for how long nothing passes
  if (changes_.trace) {
    const cluster::NodeTrace& trace = *changes_.trace;
    const auto next = at ? trace.next_link_change(*at) : std::nullopt;
    const Duration outage = next ? *next - *at + kLateness : Duration::from_seconds(1e9);
    // A rate of 0 would be without limit.
    const auto way = [&](const cluster::ValueTrace& values, double& rate) {
      if (values.empty()) return Duration{};
      const double value = at ? values.at(*at) : values.first_above_zero();
      if (value > 0) rate = value;
      return value > 0 ? Duration{} : outage;
    };
    up = way(trace.up, link_.up_bytes_per_second);
    down = way(trace.down, link_.down_bytes_per_second);
    relay_.change(link_);
  }
  for (const cluster::LinkCut& cut : changes_.cuts) {
    if (!at || *at < cut.begins || *at >= cut.ends) continue;
    const Duration left = cut.ends - *at;
    if (!cut.other) {
      up = std::max(up, left);
      down = std::max(down, left);
    } else if (const auto found = endpoints_.find(*cut.other); found != endpoints_.end()) {
      relay_.cut(found->second, left);
    }
  }
  relay_.cut(up, down);
}

std::optional<Duration> TracedLink::next_change(Duration at) const {
  auto next = changes_.trace ? changes_.trace->next_link_change(at) : std::nullopt;
  for (const cluster::LinkCut& cut : changes_.cuts)
    for (const Duration change : {cut.begins, cut.ends})
      if (change > at && (!next || change < *next)) next = change;
  return next;
}

void TracedLink::run(const std::stop_token& stop, Instant began) {
  std::unique_lock lock(mutex_);
  const auto located = [this] { return located_; };
  while (!stop.stop_requested()) {
    located_ = false;
    const Duration at = std::max(steady_now() - began, Duration{});
    set(at);
    const auto next = next_change(at);
    const Duration left = next ? began + *next - steady_now() : Duration::from_seconds(3600);
    news_.wait_for(lock, stop, std::chrono::nanoseconds(std::max(left, Duration{}).ns), located);
  }
}

}  // namespace rubato::emulation
