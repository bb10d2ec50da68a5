// tests/simulation/disk.hpp - the storage of a simulated server: the real one (server/
// file_storage.hpp) over a simulated disk, behind a Storage that the watchers look through. It
// knows of each snapshot and each addition to the journal which state of the shard it holds.
// Planted bugs of a storage sit here. Threads: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "server/storage.hpp"
#include "tests/simulation/planted.hpp"
#include "tests/simulation/sim_disk.hpp"

namespace rubato::simulation {

// All that the processes of one server gave to its disk, for the watchers. It outlives them.
class StorageRecord {
 public:
  // Lifetime of `disk`: longer than this.
  StorageRecord(MachineDisk& disk, std::string server, std::uint64_t cluster)
      : disk_(disk), server_(std::move(server)), cluster_(cluster) {}

  struct Kept {
    proto::SnapshotInfo info;
    std::uint64_t save = 0;  // which save() this was; its own number, unlike that of the snapshot
  };
  // The whole snapshots that lie on the disk.
  const std::vector<Kept>& on_disk();
  // Those of one run, by number.
  using OfRun = std::map<std::uint64_t, Kept>;
  OfRun of_run(Incarnation run);

 private:
  friend class WatchedStorage;

  std::optional<std::uint64_t> save_of(const proto::SnapshotInfo& info) const;

  // An addition to the journal. Its number tells what was added before it, as far as it leads on.
  struct Addition {
    std::optional<std::uint64_t> save;  // the save() that would hold the same
  };
  using Number = std::size_t;
  Number begin() {
    additions_.emplace_back();
    return additions_.size() - 1;
  }

  MachineDisk& disk_;
  std::string server_;
  std::uint64_t cluster_;
  std::vector<Kept> saves_;
  std::vector<Addition> additions_;
  std::map<std::pair<Number, std::uint64_t>, Number> next_;  // by the one before, and by checksum
  // The addition before a part that goes on from a snapshot: by run, number and setbacks.
  std::map<std::tuple<Incarnation, std::uint64_t, std::uint32_t>, Number> bases_;
  std::uint64_t version_ = 0;
  std::vector<Kept> on_disk_;  // as of this version of the disk
};

// The newest number that all have. Requires: one at least.
std::optional<std::uint64_t> newest_common(const std::vector<StorageRecord::OfRun>& all);

class WatchedStorage final : public server::Storage {
 public:
  struct Hooks {
    std::function<std::uint64_t(const server::ShardSnapshot&)> saving;     // returns its `save`
    std::function<void(std::uint64_t number, std::uint64_t save)> loaded;  // it was asked for
    std::function<void(const std::string&)> wrong;  // it gave what nobody has saved
  };
  // Lifetime of `record`: longer than this.
  WatchedStorage(std::unique_ptr<server::Storage> storage, StorageRecord& record, Hooks hooks,
                 Bug bug)
      : storage_(std::move(storage)), record_(record), hooks_(std::move(hooks)), bug_(bug) {}

  Inventory list() override;
  Result<server::ShardSnapshot> load(const proto::SnapshotInfo& info) override;
  void save(server::ShardSnapshot snapshot, std::uint64_t keep) override;
  std::optional<Result<void>> poll_saved() override;
  bool journals() const override { return storage_->journals(); }
  void begin_part(const Part& part) override;
  std::uint64_t append(server::LogBuffer log, std::uint64_t commits) override;
  server::LogBuffer spare() override { return storage_->spare(); }
  void sync() override { storage_->sync(); }
  // As far as it is told.
  Result<std::uint64_t> synced() override;
  Replayed replay(const proto::SnapshotInfo& info, std::uint32_t setbacks,
                  const Replay& f) override;

  // Something was added since the last mark().
  bool has_added() const { return !unmarked_.empty(); }
  // This save() would hold the shard as all these additions leave it.
  void mark(std::uint64_t save);
  struct Marked {
    std::uint64_t position = 0;
    std::uint64_t save = 0;  // as in mark()
    bool promised = true;    // no setback has come since
  };
  // Tells of the next addition that it is synced, once a snapshot is on disk that the journal goes
  // on from. So the answers that come then are of that moment.
  std::optional<Marked> tell_synced();
  // The save() that holds the same as the shard after the last replay(), if that did anything.
  std::optional<std::uint64_t> replayed() const { return replayed_; }
  // The save() that is being written.
  std::optional<std::uint64_t> saving() const { return saving_; }
  // That one, or else the last one that was written.
  std::optional<std::uint64_t> newest_save() const { return saving_ ? saving_ : saved_; }
  // The process ends in order: what it writes, it writes to the end. Nothing is called after it.
  void finish() { storage_.reset(); }

 private:
  std::unique_ptr<server::Storage> storage_;
  StorageRecord& record_;
  Hooks hooks_;
  Bug bug_;
  std::vector<proto::SnapshotInfo> found_;
  std::optional<std::uint64_t> saving_, saved_;
  StorageRecord::Number last_ = 0;  // addition
  struct Unmarked {
    StorageRecord::Number addition = 0;
    std::uint64_t position = 0;
  };
  std::vector<Unmarked> unmarked_;
  std::deque<Marked> marked_;  // not told yet
  std::uint64_t told_ = 0;
  std::optional<std::uint64_t> replayed_;
  // So often the journal has begun to go on from nothing; the same when the save began that comes.
  std::uint64_t breaks_ = 0, saving_breaks_ = 0;
  bool holds_answers_ = false;
};

}  // namespace rubato::simulation
