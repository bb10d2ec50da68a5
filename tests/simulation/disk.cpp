#include "tests/simulation/disk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

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

std::uint64_t SnapshotStorage::commits_after(const proto::SnapshotInfo& info) const {
  std::uint64_t commits = 0;
  if (disk_.journals)
    disk_.for_each_after(info, [&](const LoggedPart&, const LoggedPart::Addition& addition) {
      commits += addition.commits;
      return true;
    });
  return commits;
}

server::Storage::Inventory SnapshotStorage::list() {
  Inventory all;
  for (const auto& slot : disk_.slots) {
    if (!slot) continue;
    const std::string name = fmt::format("snapshot {}", slot->snapshot.info.number);
    if (slot->damaged)
      all.refused.push_back(name + ": fails its checksum: it is damaged");
    else
      all.snapshots.push_back(
          {slot->snapshot.info, name, slot->snapshot.range, commits_after(slot->snapshot.info)});
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
  saving_breaks_ = breaks_;
  writing_slot_ = slot_for(snapshot.info, keep);
  writing_behind_ = disk_.items;
  const std::uint64_t save = hooks_.saving(snapshot);
  writing_ = std::make_shared<SavedSnapshot>(SavedSnapshot{std::move(snapshot), save});
  write(writing_, writing_slot_);
}

std::optional<Result<void>> SnapshotStorage::poll_saved() {
  if (saved_ && *saved_ && saving_breaks_ == breaks_) holds_answers_ = false;
  return std::exchange(saved_, std::nullopt);
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
      disk_.synced_items = std::max(disk_.synced_items, writing_behind_);
      saved_ = Result<void>();
    }
    writing_.reset();
    hooks_.told();
  });
}

// --- the journal ---------------------------------------------------------------------------------

void SnapshotDisk::damage_journal(Rng& rng) {
  if (journal.empty()) return;
  const std::size_t damaged = rng.below(journal.size());
  auto& added = journal[damaged].added;
  if (added.empty()) return;
  added.resize(rng.below(added.size()));
  journal.resize(damaged + 1);
  synced_items = items;
  // It is not the end of a file that was cut short: what comes now cannot go on from it.
  journal.push_back({{.run = journal.back().part.run, .continues = false}, {}});
}

void SnapshotDisk::lose_unsynced(Rng& rng) {
  for (std::uint64_t lost = rng.below(items - synced_items + 1); lost > 0; --lost) {
    if (journal.back().added.empty())
      journal.pop_back();
    else
      journal.back().added.pop_back();
  }
  synced_items = items;
}

const LoggedPart* SnapshotDisk::for_each_after(
    const proto::SnapshotInfo& info,
    const std::function<bool(const LoggedPart&, const LoggedPart::Addition&)>& f) const {
  const auto based = [&](const LoggedPart& each) {
    return each.part.run == info.run && each.part.base == info.number;
  };
  const auto last = std::find_if(journal.rbegin(), journal.rend(), based);
  if (last == journal.rend()) return nullptr;
  for (auto part = last.base() - 1;;) {
    for (const auto& addition : part->added)
      if (!f(*part, addition)) return &*part;
    const auto next = part + 1;
    if (next == journal.end() || !next->part.continues || next->part.run != info.run) return &*part;
    part = next;
  }
}

void SnapshotStorage::begin_part(const Part& part) {
  refused_ = refused_ || disk_.full;
  if (!refused_) {
    disk_.journal.push_back({part, {}});
    ++disk_.items;
  }
  if (!part.continues)
    for (Marked& each : marked_) each.promised = false;
  if (part.continues || part.base != 0) return;
  holds_answers_ = true;
  ++breaks_;
}

std::uint64_t SnapshotStorage::append(server::LogBuffer log, std::uint64_t commits) {
  refused_ = refused_ || disk_.full;
  ++position_;
  if (refused_) return position_;
  auto& added = disk_.journal.back().added;
  unmarked_.push_back({disk_.journal.size() - 1, added.size(), position_});
  const auto bytes = log.log();
  added.push_back({{bytes.begin(), bytes.end()}, commits, 0});
  ++disk_.items;
  return position_;
}

void SnapshotStorage::sync() {
  sync_again_ = true;
  if (!syncing_) begin_sync();
}

void SnapshotStorage::begin_sync() {
  syncing_ = true;
  sync_again_ = false;
  end_sync(position_, disk_.items);
}

void SnapshotStorage::end_sync(std::uint64_t position, std::uint64_t items) {
  events_.after(disk_.sync + disk_.more_sync,
                [this, position, items, lives = std::weak_ptr(lives_)] {
                  if (lives.expired()) return;  // the process ended
                  if (hooks_.frozen()) return end_sync(position, items);
                  disk_.synced_items = std::max(disk_.synced_items, items);
                  synced_ = position;
                  syncing_ = false;
                  if (sync_again_) begin_sync();
                  hooks_.told();
                });
}

Result<std::uint64_t> SnapshotStorage::synced() {
  if (refused_) return fail(ErrorCode::Io, "cannot write the journal: No space left on device");
  return told_;
}

void SnapshotStorage::mark(std::uint64_t save) {
  for (const Unmarked& each : unmarked_) {
    disk_.journal[each.part].added[each.addition].save = save;
    marked_.push_back({each.position, save});
  }
  unmarked_.clear();
}

std::optional<SnapshotStorage::Marked> SnapshotStorage::tell_synced() {
  if (holds_answers_ || marked_.empty() || marked_.front().position > synced_) return std::nullopt;
  const Marked next = marked_.front();
  marked_.pop_front();
  told_ = next.position;
  return next;
}

server::Storage::Replayed SnapshotStorage::replay(const proto::SnapshotInfo& info,
                                                  std::uint32_t setbacks, const Replay& f) {
  Replayed replayed;
  std::vector<const LoggedPart::Addition*> all;
  const LoggedPart* const last =
      disk_.for_each_after(info, [&](const LoggedPart& part, const LoggedPart::Addition& addition) {
        if (part.part.setbacks == setbacks) all.push_back(&addition);
        return part.part.setbacks == setbacks;
      });
  if (bug_ == Bug::LosesAnswered && !all.empty()) all.pop_back();
  for (const auto* addition : all) {
    if (const auto done = f(addition->log); !done) {
      replayed.lines.push_back(done.error().message);
      break;
    }
    if (bug_ == Bug::ReplaysTwice) (void)f(addition->log);
    replayed.commits += addition->commits;
    replayed_ = addition->save;
  }
  replayed.whole = last && last == &disk_.journal.back() && last->part.setbacks == setbacks &&
                   replayed.lines.empty();
  return replayed;
}

std::optional<std::uint64_t> SnapshotStorage::finish() {
  if (!writing_ || disk_.full) return std::nullopt;
  disk_.slots[writing_slot_] = *writing_;
  return writing_->save;
}

}  // namespace rubato::simulation
