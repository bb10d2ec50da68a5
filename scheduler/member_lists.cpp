#include "scheduler/member_lists.hpp"

#include <algorithm>

namespace rubato::scheduler {
namespace {

constexpr Duration kResend = Duration::from_seconds(1);
constexpr std::uint64_t kLostMax = std::uint64_t{1} << 50;  // more is not believed
// On their way to one server. 90 workers that join one by one stay below it (1 + 2 + ... + 90).
constexpr std::size_t kEntriesUnderWayMax = 4096;

}  // namespace

// The clock of the run goes on, whatever the journal has lost, and a list takes longer than a
// millisecond. So an epoch by the clock is above all that the servers know.
void MemberLists::on_return(Instant now) {
  const std::uint64_t beyond =
      std::max(epoch_ + 1, static_cast<std::uint64_t>(now.ns / Duration::from_ms(1).ns));
  for (Server& server : servers_)
    if (server.acked == epoch_) server.acked = server.sent = beyond;
  epoch_ = beyond;
}

void MemberLists::on_change(Instant now) {
  ++epoch_;
  sent_ = now;
}

void MemberLists::on_replaced(std::uint32_t index, Instant now) {
  servers_[index] = {};
  if (acked() < epoch_) sent_ = now;
}

void MemberLists::on_ack(std::uint32_t index, std::uint64_t epoch, Instant now) {
  Server& server = servers_[index];
  if (epoch > epoch_) {
    if (epoch - epoch_ > kLostMax) return;
    epoch_ = epoch;
    return on_change(now);
  }
  server.acked = epoch;
  while (!server.under_way.empty() && server.under_way.front().epoch <= epoch) {
    server.entries -= server.under_way.front().entries;
    server.under_way.pop_front();
  }
  if (acked() == epoch_) sent_.reset();
}

bool MemberLists::on_wakeup(Instant now) {
  if (!sent_ || now < *sent_ + kResend) return false;
  sent_ = now;
  for (Server& server : servers_) {
    if (server.acked >= epoch_) continue;
    server.sent = server.acked;
    server.under_way.clear();
    server.entries = 0;
  }
  return true;
}

std::vector<std::uint32_t> MemberLists::poll_due(std::size_t entries) {
  std::vector<std::uint32_t> due;
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    if (server.sent >= epoch_) continue;
    if (!server.under_way.empty() && server.entries + entries > kEntriesUnderWayMax) continue;
    server.sent = epoch_;
    server.under_way.push_back({epoch_, entries});
    server.entries += entries;
    due.push_back(i);
  }
  return due;
}

std::optional<Instant> MemberLists::poll_wakeup() const {
  if (!sent_) return std::nullopt;
  return *sent_ + kResend;
}

std::uint64_t MemberLists::acked() const {
  std::uint64_t acked = epoch_;
  for (const Server& server : servers_) acked = std::min(acked, server.acked);
  return acked;
}

}  // namespace rubato::scheduler
