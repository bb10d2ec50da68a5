#include "emulation/throttle/traced_link.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace rubato::emulation {
namespace {

// An outage ends with the next change of the trace, which may come late.
constexpr Duration kLateness = Duration::from_seconds(5);

}  // namespace

TracedLink::TracedLink(Relay& relay, const cluster::LinkModel& link,
                       std::shared_ptr<const cluster::NodeTrace> trace)
    : relay_(relay),
      link_(link),
      trace_(trace && trace->shapes_link() ? std::move(trace) : nullptr) {
  if (trace_) set({});
}

void TracedLink::follow(Instant began) {
  if (!trace_ || thread_.joinable()) return;
  thread_ = std::jthread([this, began](const std::stop_token& stop) { run(stop, began); });
}

void TracedLink::set(Duration at) {
  const auto next = trace_->next_link_change(at);
  const Duration outage = next ? *next - at + kLateness : Duration::from_seconds(1e9);
  // Returns: for how long nothing passes. A rate of 0 would be without limit.
  const auto way = [&](const cluster::ValueTrace& values, double& rate) {
    if (values.empty()) return Duration{};
    const double value = values.at(at);
    if (value > 0) rate = value;
    return value > 0 ? Duration{} : outage;
  };
  const Duration up = way(trace_->up, link_.up_bytes_per_second);
  const Duration down = way(trace_->down, link_.down_bytes_per_second);
  relay_.change(link_);
  relay_.cut(up, down);
}

void TracedLink::run(const std::stop_token& stop, Instant began) {
  std::mutex mutex;
  std::condition_variable_any ended;
  for (;;) {
    const Duration at = std::max(steady_now() - began, Duration{});
    set(at);
    const auto next = trace_->next_link_change(at);
    std::unique_lock lock(mutex);
    const auto stopped = [&] { return stop.stop_requested(); };
    if (!next) {
      ended.wait(lock, stop, stopped);
      return;
    }
    const Duration left = began + *next - steady_now();
    ended.wait_for(lock, stop, std::chrono::nanoseconds(std::max(left, Duration{}).ns), stopped);
    if (stop.stop_requested()) return;
  }
}

}  // namespace rubato::emulation
