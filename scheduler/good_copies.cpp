#include "scheduler/good_copies.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace rubato::scheduler {
namespace {

// Snapshots that a journal can have lost; a server that speaks of more is not believed.
constexpr std::uint64_t kForgottenMax = 1000;
// Within it a server that has heard an order says so, or it did not hear it.
constexpr Duration kHeardWithin = Duration::from_seconds(5);
constexpr Duration kLookEvery = Duration::from_seconds(1);     // for servers that still write
constexpr Duration kHeldUpAfter = Duration::from_seconds(60);  // a line says for whom

std::int64_t difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a) - static_cast<std::int64_t>(b);
}

}  // namespace

void GoodCopies::add_server(std::span<const proto::SnapshotInfo> found, bool keeps) {
  servers_.push_back({.keeps = keeps});
  if (resharded_ != 0) servers_.back().put(resharded_, 0);
  if (const auto* last = newest(found)) learn(last->number);
}

void GoodCopies::learn(std::uint64_t number) {
  if (number < std::max(forgotten_, orders_.size()) + kForgottenMax)
    forgotten_ = std::max(forgotten_, number);
}

void GoodCopies::on_absent(std::uint32_t server) {
  Copy& copy = servers_[server];
  if (copy.state == State::Here) copy.state = State::Absent;
}

void GoodCopies::on_resharded(Instant now, std::uint64_t number) {
  servers_.clear();
  due_.reset();
  learn(number);
  common_ = resharded_ = number < next_number() ? number : 0;
  if (common_ == 0) return;
  orders_.resize(next_number() - 1, {now});
  voids_.push_back({1, common_ - 1});
}

void GoodCopies::on_start(Instant now) {
  if (every_ > Duration{}) next_ = now;
}

void GoodCopies::on_return() {
  for (Copy& copy : servers_) copy.state = State::Unheard;
}

void GoodCopies::on_told(Instant now, std::uint32_t server, const proto::Heartbeat& beat,
                         std::uint64_t commits) {
  Copy& copy = servers_[server];
  copy.told = now;
  std::ranges::rotate(copy.more, copy.more.begin() + 1);
  copy.more.back() = difference(beat.commits, commits);
  copy.saving = beat.saving;
  copy.keeps = copy.keeps || beat.saving != 0;
  if (beat.saved == 0 || is_void(beat.saved) || beat.saved <= copy.newest()) return;
  copy.put(beat.saved, beat.saved <= orders_.size() ? orders_[beat.saved - 1].keep : common_);
  learn(beat.saved);
  find_common();
  if (due_) next_ = due_;
}

std::uint64_t GoodCopies::on_replaced(std::uint32_t server,
                                      std::span<const proto::SnapshotInfo> found,
                                      const proto::SnapshotInfo* from, std::uint64_t commits,
                                      bool keeps) {
  Copy& copy = servers_[server];
  const std::int64_t had = static_cast<std::int64_t>(commits) + std::ranges::min(copy.more);
  const std::uint64_t has = from ? from->commits : 0;
  copy = {.state = State::Here, .keeps = keeps};
  copy.more.fill(difference(has, commits));
  for (const proto::SnapshotInfo& each : found)
    if (is_good(each)) copy.put(each.number, 0), learn(each.number);
  find_common();
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, had - static_cast<std::int64_t>(has)));
}

void GoodCopies::Copy::put(std::uint64_t number, std::uint64_t keep) {
  const auto worth = [&](std::uint64_t each) {
    return each != 0 && each == keep ? std::numeric_limits<std::uint64_t>::max() : each;
  };
  *std::ranges::min_element(disk, {}, worth) = number;
}

bool GoodCopies::keeps(const Copy& copy, std::uint64_t number) const {
  if (number == 0 || !copy.has(number)) return false;
  const std::uint64_t untold = std::max(copy.newest() + 1, copy.first);
  if (number == copy.newest() && copy.ordered == untold) {
    // It goes over the other one, if it may.
    const std::uint64_t other = std::ranges::min(copy.disk), keep = orders_[untold - 1].keep;
    return other == 0 || other != keep || keep == number;
  }
  for (std::uint64_t each = untold; each <= copy.ordered; ++each)
    if (orders_[each - 1].keep != number) return false;
  return true;
}

void GoodCopies::find_common() {
  common_ = 0;
  for (const std::uint64_t number : servers_.front().disk)
    if (std::ranges::all_of(servers_, [&](const Copy& each) { return keeps(each, number); }))
      common_ = std::max(common_, number);
}

bool GoodCopies::unsure(const Copy& copy) const {
  return copy.ordered > copy.newest() &&
         (copy.saving != 0 || copy.told < orders_[copy.ordered - 1].at);
}

// Where no snapshot is known to be on all disks, the next orders may write over one that is.
bool GoodCopies::awaited(Instant now, const Copy& copy) const {
  if (copy.state == State::Unheard) return true;
  if (common_ == 0 && unsure(copy)) return true;
  if (copy.state == State::Absent || orders_.empty() || copy.newest() >= orders_.size())
    return false;
  const Duration since = now - orders_.back().at;
  return since < (copy.saving == 0 ? kHeardWithin : patience_);
}

bool GoodCopies::any_awaited(Instant now) const {
  return std::ranges::any_of(servers_, [&](const Copy& copy) { return awaited(now, copy); });
}

std::optional<std::uint32_t> GoodCopies::held_up_by(Instant now) const {
  if (!due_ || now - *due_ < kHeldUpAfter) return std::nullopt;
  const auto server =
      std::ranges::find_if(servers_, [&](const Copy& copy) { return awaited(now, copy); });
  if (server == servers_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(server - servers_.begin());
}

void GoodCopies::hurry(Instant now) {
  if (next_ && !any_awaited(now)) next_ = std::min(*next_, now);
}

std::optional<proto::Save> GoodCopies::poll_order(Instant now, std::uint64_t commits) {
  if (!next_ || now < *next_) return std::nullopt;
  const bool wait = any_awaited(now) || std::ranges::all_of(servers_, [](const Copy& copy) {
                      return copy.state == State::Absent;
                    });
  due_ = wait ? std::optional(due_.value_or(now)) : std::nullopt;
  next_ = now + (wait ? kLookEvery : every_);
  if (wait) return std::nullopt;
  return order(now, commits);
}

std::optional<proto::Save> GoodCopies::last_order(Instant now, std::uint64_t commits) {
  if (!next_) return std::nullopt;  // it keeps none, or has not begun
  return order(now, commits);
}

bool GoodCopies::writes(Instant now, std::uint32_t server) const {
  const Copy& copy = servers_[server];
  if (copy.saving != 0 || copy.state == State::Unheard) return true;
  if (copy.ordered <= copy.newest()) return false;
  const Instant at = orders_[copy.ordered - 1].at;
  return copy.told < at && now - at < kHeardWithin;
}

std::uint64_t GoodCopies::unsaved(std::uint32_t server, std::uint64_t commits) const {
  const std::uint64_t newest = servers_[server].newest();
  const bool known = newest >= 1 && newest <= orders_.size();
  const std::uint64_t saved = known ? orders_[newest - 1].commits : 0;
  return commits - std::min(commits, saved);
}

proto::Save GoodCopies::order(Instant now, std::uint64_t commits) {
  if (forgotten_ > orders_.size()) orders_.resize(forgotten_, {now, 0, commits});
  orders_.push_back({now, common_, commits});
  for (Copy& copy : servers_)
    if (copy.state == State::Here) {
      if (copy.first == 0) copy.first = orders_.size();
      copy.ordered = orders_.size();
    }
  return proto::Save{orders_.size(), common_};
}

std::uint64_t GoodCopies::go_back() {
  if (orders_.size() > common_) voids_.push_back({common_ + 1, orders_.size()});
  for (Copy& copy : servers_)
    for (std::uint64_t& number : copy.disk)
      if (number > common_) number = 0;
  return common_;
}

const proto::SnapshotInfo* GoodCopies::newest(std::span<const proto::SnapshotInfo> found,
                                              std::optional<std::uint64_t> number) const {
  const proto::SnapshotInfo* best = nullptr;
  for (const proto::SnapshotInfo& each : found)
    if (is_good(each) && (!number || each.number == *number) &&
        (!best || each.number > best->number))
      best = &each;
  return best;
}

std::uint64_t GoodCopies::common(std::span<const std::vector<proto::SnapshotInfo>> found) const {
  std::map<std::uint64_t, std::size_t> servers;  // by number: how many have it
  for (const auto& snapshots : found)
    for (const proto::SnapshotInfo& each : snapshots)
      if (is_good(each)) ++servers[each.number];
  std::uint64_t newest = 0;
  for (const auto& [number, count] : servers)
    if (count == found.size()) newest = number;
  return newest;
}

bool GoodCopies::may_begin_anew(std::uint32_t server, bool together) const {
  return every_ > Duration{} && (servers_[server].newest() == 0 || (together && common_ == 0));
}

std::optional<Instant> GoodCopies::ordered(std::uint64_t number) const {
  if (number < 1 || number > orders_.size()) return std::nullopt;
  return orders_[number - 1].at;
}

bool GoodCopies::is_void(std::uint64_t number) const {
  return std::ranges::any_of(
      voids_, [&](const Void& range) { return range.first <= number && number <= range.last; });
}

}  // namespace rubato::scheduler
