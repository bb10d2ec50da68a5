#include "tests/simulation/disk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace rubato::simulation {

Result<void> JournalDisk::append(Instant now, std::string_view record) {
  if (full_) return fail(ErrorCode::Io, "cannot write scheduler.journal: No space left on device");
  bytes_ += record;
  sizes_.emplace_back(now, bytes_.size());
  for (; sizes_.front().first + kWriteBack < now; sizes_.pop_front())
    synced_ = sizes_.front().second;
  return {};
}

void JournalDisk::cut(std::size_t size) {
  bytes_.resize(size);
  synced_ = std::min(synced_, size);
  while (!sizes_.empty() && sizes_.back().second > size) sizes_.pop_back();
}

Result<void> JournalDisk::sync() {
  if (full_) return fail(ErrorCode::Io, "cannot write scheduler.journal: No space left on device");
  sizes_.clear();
  synced_ = bytes_.size();
  return {};
}

void JournalDisk::lose_power(Instant now, Rng& rng) {
  const Instant written = now - kWriteBack * rng.uniform();
  std::size_t kept = std::min(synced_, bytes_.size());
  for (const auto& [at, size] : sizes_)
    if (at <= written) kept = size;
  const std::size_t lost = bytes_.size() - kept;
  switch (lost == 0 ? 0 : rng.below(3)) {
    case 1:  // the size was written, and not the bytes
      std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(kept), lost, '\0');
      break;
    case 2:  // a part of a record
      bytes_.resize(kept + std::min<std::size_t>(lost, 1 + rng.below(12)));
      break;
    default:
      bytes_.resize(kept);
  }
  sizes_.clear();
  synced_ = bytes_.size();
}

void JournalDisk::flip_bit(Rng& rng) {
  if (bytes_.empty()) return;
  char& byte = bytes_[rng.below(bytes_.size())];
  byte = static_cast<char>(byte ^ (1 << rng.below(8)));
}

server::Storage::Inventory SnapshotStorage::list() {
  Inventory all;
  for (const auto& slot : disk_.slots) {
    if (!slot) continue;
    const std::string name = fmt::format("snapshot {}", slot->snapshot.info.number);
    if (slot->damaged)
      all.refused.push_back(name + ": fails its checksum: it is damaged");
    else
      all.snapshots.push_back({slot->snapshot.info, name});
  }
  std::ranges::sort(all.snapshots, {}, [](const Found& found) { return found.info.number; });
  if (bug_ == Bug::Overstated)
    for (Found& found : all.snapshots) found.info.commits += 500;
  if (bug_ == Bug::TwoTimelines && all.snapshots.size() == server::kSnapshotsKept)
    all.snapshots.erase(all.snapshots.begin());
  return all;
}

Result<server::ShardSnapshot> SnapshotStorage::load(const proto::SnapshotInfo& info) {
  const SavedSnapshot* found = nullptr;
  const SavedSnapshot* other = nullptr;
  for (const auto& slot : disk_.slots) {
    if (!slot) continue;
    const auto& its = slot->snapshot.info;
    (its.run == info.run && its.number == info.number ? found : other) = &*slot;
  }
  if (!found) return fail(ErrorCode::Io, fmt::format("snapshot {} is not here", info.number));
  if (found->damaged)
    return fail(ErrorCode::Corrupt, fmt::format("snapshot {} is damaged", info.number));
  // Only where the other is of the same run, and on every second server.
  const bool both = other && other->snapshot.info.run == info.run && !other->damaged;
  if (bug_ == Bug::TwoTimelines && both && found->snapshot.range.begin > 0) found = other;
  hooks_.loaded(info.number, *found);
  server::ShardSnapshot snapshot = found->snapshot;
  if (bug_ == Bug::TornSnapshot && both)
    snapshot.state.parameters.back() = other->snapshot.state.parameters.back();
  if (bug_ == Bug::Overstated) snapshot.info.commits = info.commits;
  return snapshot;
}

// As server/file_storage.cpp: the slot of the other run, or of the lower number, but not that of
// `keep`.
std::size_t SnapshotStorage::slot_for(const proto::SnapshotInfo& next, std::uint64_t keep) const {
  const auto worth = [&](const std::optional<SavedSnapshot>& slot) -> std::uint64_t {
    if (!slot || slot->damaged || slot->snapshot.info.run != next.run) return 0;
    const std::uint64_t number = slot->snapshot.info.number;
    return number == keep ? std::numeric_limits<std::uint64_t>::max() : number;
  };
  const auto least = std::ranges::min_element(disk_.slots, {}, worth);
  return static_cast<std::size_t>(least - disk_.slots.begin());
}

void SnapshotStorage::save(server::ShardSnapshot snapshot, std::uint64_t keep) {
  writing_slot_ = slot_for(snapshot.info, keep);
  const std::uint64_t save = hooks_.saving(snapshot);
  writing_ = std::make_shared<SavedSnapshot>(SavedSnapshot{std::move(snapshot), save});
  write(writing_, writing_slot_);
}

void SnapshotStorage::write(const std::shared_ptr<SavedSnapshot>& next, std::size_t slot) {
  events_.after(disk_.write, [this, slot, weak = std::weak_ptr(next)] {
    const auto whole = weak.lock();
    if (!whole) return;  // the process ended
    if (hooks_.frozen()) return write(whole, slot);
    if (disk_.full) {
      saved_ = fail(ErrorCode::Io, "cannot write a snapshot: No space left on device");
    } else {
      disk_.slots[slot] = *whole;
      saved_ = Result<void>();
    }
    writing_.reset();
    hooks_.told();
  });
}

void SnapshotStorage::finish() {
  if (writing_ && !disk_.full) disk_.slots[writing_slot_] = *writing_;
}

}  // namespace rubato::simulation
