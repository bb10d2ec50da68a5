#include "server/snapshot_orders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rubato::server {
namespace {

// An order that took so much longer than the quickest one would mix moments.
constexpr Duration kOrderLateAfter = Duration::from_ms(1500);
constexpr Duration kClockStoodStill = Duration::from_ms(-100);
// A Welcome that took longer may have waited for other servers.
constexpr Duration kAtOnce = Duration::from_ms(500);

}  // namespace

void SnapshotOrders::join(Incarnation run, std::span<const Storage::Found> found) {
  run_ = run;
  for (const Storage::Found& each : found)
    if (each.info.run == run) known_.push_back(each.info);
}

void SnapshotOrders::learn_trip(Duration trip) {
  least_trip_ = std::min(trip, least_trip_.value_or(trip));
}

void SnapshotOrders::on_hello(Instant now) {
  hello_sent_ = now;
  ++hellos_;
}

void SnapshotOrders::on_welcome(Instant now) {
  if (hellos_ == 1 && now - hello_sent_ <= kAtOnce) learn_trip(now - hello_sent_);
}

// A machine that slept has a clock that stood still: then the trip seems to end before it began.
bool SnapshotOrders::is_late(Instant now, const proto::Save& order) {
  if (order.clock == Instant{}) return false;
  const Duration trip = now - order.clock - order.ago;
  if (trip > least_trip_.value_or(Duration{}) + kOrderLateAfter || trip < kClockStoodStill)
    return true;
  learn_trip(trip);
  return false;
}

bool SnapshotOrders::accepts(Instant now, const proto::Save& order, Lines& warnings) {
  if (is_late(now, order)) {
    warnings.push(
        fmt::format("snapshot {} is left out: its order came late, and other shards have moved on",
                    order.number));
    return false;
  }
  if (!saving_) return true;
  if (!std::exchange(left_out_, true))
    warnings.push(fmt::format("snapshot {} is left out: snapshot {} is still being written",
                              order.number, *saving_));
  return false;
}

proto::SnapshotInfo SnapshotOrders::begin(std::uint64_t number, std::uint64_t commits) {
  saving_ = number;
  known_.push_back({.run = run_, .number = number, .commits = commits});
  return known_.back();
}

void SnapshotOrders::end(const Result<void>& saved, Lines& log, Lines& warnings) {
  if (saved) saved_ = *saving_;
  saving_.reset();
  left_out_ = false;
  if (!saved && !failed_)
    warnings.push(saved.error().message + "; the run goes on without this snapshot");
  if (saved && failed_) log.push("snapshots are written again");
  failed_ = !saved;
}

std::optional<proto::SnapshotInfo> SnapshotOrders::find(std::uint64_t number) const {
  const auto info = std::ranges::find(known_, number, &proto::SnapshotInfo::number);
  if (info == known_.end()) return std::nullopt;
  return *info;
}

void SnapshotOrders::forget_after(std::uint64_t number) {
  std::erase_if(known_, [&](const auto& each) { return each.number > number; });
}

}  // namespace rubato::server
