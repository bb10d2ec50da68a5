#include "tests/simulation/disk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/checksum.hpp"
#include "server/file_storage.hpp"

namespace rubato::simulation {
namespace {

constexpr std::uint64_t kOverstated = 500;  // commits

}  // namespace

std::optional<std::uint64_t> StorageRecord::save_of(const proto::SnapshotInfo& info) const {
  const auto found = std::find_if(saves_.rbegin(), saves_.rend(),
                                  [&](const Kept& each) { return each.info == info; });
  if (found == saves_.rend()) return std::nullopt;
  return found->save;
}

const std::vector<StorageRecord::Kept>& StorageRecord::on_disk() {
  if (version_ == disk_.version()) return on_disk_;
  version_ = disk_.version();
  on_disk_.clear();
  ProcessDisk observer(disk_, {}, 0);
  observer.die();
  const auto storage = server::open_storage(
      {.directory = "state", .server = server_, .cluster = cluster_, .disk = &observer});
  for (const auto& found : (*storage)->list().snapshots)
    if (const auto save = save_of(found.info)) on_disk_.push_back({found.info, *save});
  return on_disk_;
}

StorageRecord::OfRun StorageRecord::of_run(Incarnation run) {
  OfRun found;
  for (const Kept& kept : on_disk())
    if (kept.info.run == run) found[kept.info.number] = kept;
  return found;
}

std::optional<std::uint64_t> newest_common(const std::vector<StorageRecord::OfRun>& all) {
  for (auto at = all.front().rbegin(); at != all.front().rend(); ++at)
    if (std::ranges::all_of(all, [&](const auto& each) { return each.contains(at->first); }))
      return at->first;
  return std::nullopt;
}

// --- snapshots -----------------------------------------------------------------------------------

server::Storage::Inventory WatchedStorage::list() {
  Inventory all = storage_->list();
  found_.clear();
  for (Found& found : all.snapshots) {
    found_.push_back(found.info);
    if (bug_ == Bug::Overstated) found.info.commits += kOverstated;
  }
  if (bug_ == Bug::TwoTimelines && all.snapshots.size() == server::kSnapshotsKept)
    all.snapshots.erase(all.snapshots.begin());
  return all;
}

Result<server::ShardSnapshot> WatchedStorage::load(const proto::SnapshotInfo& info) {
  proto::SnapshotInfo wanted = info;
  std::optional<proto::SnapshotInfo> other;
  for (const auto& each : record_.on_disk()) {
    if (each.info.run != info.run) continue;
    if (each.info.number == info.number)
      wanted = each.info;
    else
      other = each.info;
  }
  if (bug_ != Bug::Overstated) wanted.commits = info.commits;
  // Only where the other is of the same run, and on every second server.
  RUBATO_ASSIGN(auto snapshot, storage_->load(wanted));
  if (other && bug_ == Bug::TwoTimelines && snapshot.range.begin > 0)
    if (auto older = storage_->load(*other)) snapshot = std::move(*older);
  if (other && bug_ == Bug::TornSnapshot)
    if (auto older = storage_->load(*other))
      snapshot.state.parameters.back() = older->state.parameters.back();
  if (const auto save = record_.save_of(snapshot.info))
    hooks_.loaded(info.number, *save);
  else
    hooks_.wrong(fmt::format("snapshot {} was never saved with {} commits", snapshot.info.number,
                             snapshot.info.commits));
  if (bug_ == Bug::Overstated) snapshot.info.commits = info.commits;
  return snapshot;
}

void WatchedStorage::save(server::ShardSnapshot snapshot, std::uint64_t keep) {
  saving_breaks_ = breaks_;
  saving_ = hooks_.saving(snapshot);
  record_.saves_.push_back({snapshot.info, *saving_});
  storage_->save(std::move(snapshot), keep);
}

std::optional<Result<void>> WatchedStorage::poll_saved() {
  auto saved = storage_->poll_saved();
  if (!saved) return saved;
  if (*saved && saving_breaks_ == breaks_) holds_answers_ = false;
  if (*saved) saved_ = saving_;
  saving_.reset();
  return saved;
}

// --- the journal ---------------------------------------------------------------------------------

void WatchedStorage::begin_part(const Part& part) {
  storage_->begin_part(part);
  if (!part.continues) {
    last_ = record_.begin();
    for (Marked& each : marked_) each.promised = false;
  }
  if (part.base != 0) record_.bases_[{part.run, part.base, part.setbacks}] = last_;
  if (part.continues || part.base != 0) return;
  holds_answers_ = true;
  ++breaks_;
}

std::uint64_t WatchedStorage::append(server::LogBuffer log, std::uint64_t commits) {
  const auto number = record_.begin();
  record_.next_[{last_, checksum(log.log())}] = number;
  last_ = number;
  unmarked_.push_back({number, storage_->append(std::move(log), commits)});
  return unmarked_.back().position;
}

Result<std::uint64_t> WatchedStorage::synced() {
  RUBATO_TRY(storage_->synced());
  return told_;
}

void WatchedStorage::mark(std::uint64_t save) {
  for (const Unmarked& each : unmarked_) {
    record_.additions_[each.addition].save = save;
    marked_.push_back({each.position, save});
  }
  unmarked_.clear();
}

std::optional<WatchedStorage::Marked> WatchedStorage::tell_synced() {
  if (holds_answers_ || marked_.empty()) return std::nullopt;
  if (const auto synced = storage_->synced(); !synced || marked_.front().position > *synced)
    return std::nullopt;
  const Marked next = marked_.front();
  marked_.pop_front();
  told_ = next.position;
  return next;
}

server::Storage::Replayed WatchedStorage::replay(const proto::SnapshotInfo& info,
                                                 std::uint32_t setbacks, const Replay& f) {
  using Log = std::vector<std::byte>;
  std::vector<Log> logs;
  Replayed replayed = storage_->replay(info, setbacks, [&](auto log) -> Result<void> {
    logs.emplace_back(log.begin(), log.end());
    return {};
  });
  if (bug_ == Bug::LosesAnswered && !logs.empty()) logs.pop_back();
  const auto base = record_.bases_.find({info.run, info.number, setbacks});
  if (base != record_.bases_.end()) last_ = base->second;
  for (const Log& log : logs) {
    if (const auto done = f(log); !done) {
      replayed.lines.push_back(done.error().message);
      replayed.whole = false;
      break;
    }
    if (bug_ == Bug::ReplaysTwice) (void)f(log);
    const auto next = record_.next_.find({last_, checksum(log)});
    if (base == record_.bases_.end() || next == record_.next_.end()) {
      hooks_.wrong(
          fmt::format("the journal after snapshot {} has what nobody added there", info.number));
      break;
    }
    last_ = next->second;
    replayed_ = record_.additions_[last_].save;
  }
  return replayed;
}

}  // namespace rubato::simulation
