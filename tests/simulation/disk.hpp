// tests/simulation/disk.hpp - the disks of the machines.
// A server's disk has the two snapshots of server/file_storage.hpp: a snapshot takes its time, is
// there when it is whole, and is lost if the process ends before. The disk may be slow or full, and
// a bit may flip in what lies there. A sync of a server's journal takes its time, too; one that is
// asked for meanwhile begins when it ends. A process that is killed, or loses power, leaves all
// that was synced, and some of what it has added since. The scheduler's disk has the journal.
// Nothing of it is synced by the scheduler: the system writes it within kWriteBack, and a loss of
// power takes what was not written. Threads: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "server/storage.hpp"
#include "tests/simulation/events.hpp"
#include "tests/simulation/planted.hpp"

namespace rubato::simulation {

struct SavedSnapshot {
  server::ShardSnapshot snapshot;
  std::uint64_t save = 0;  // which save() this was; its own number, unlike that of the snapshot
  bool damaged = false;
};

struct LoggedPart {
  struct Addition {
    std::vector<std::byte> log;
    std::uint64_t commits = 0;
    std::uint64_t save = 0;  // the save() that would hold the same
  };
  server::Storage::Part part;
  std::vector<Addition> added;
};

struct SnapshotDisk {
  std::array<std::optional<SavedSnapshot>, server::kSnapshotsKept> slots;
  Duration write = Duration::from_ms(50);  // that a snapshot takes
  Duration sync = Duration::from_ms(1);    // that a sync of the journal takes
  Duration more_sync;                      // that it takes beyond that, while the disk is slow
  bool full = false;
  bool journals = false;
  std::vector<LoggedPart> journal;
  std::uint64_t items = 0;         // of the journal: additions, and beginnings of parts
  std::uint64_t synced_items = 0;  // the first of these

  // A process has died. Some of what is not synced is on disk, without a gap.
  void lose_unsynced(Rng& rng);
  // A bit flips in the journal: what stands behind it leads on from nothing.
  void damage_journal(Rng& rng);
  // Calls f(addition) for what was added after the snapshot, until it returns false. Returns: the
  // part that was looked at last, or null.
  const LoggedPart* for_each_after(
      const proto::SnapshotInfo& info,
      const std::function<bool(const LoggedPart&, const LoggedPart::Addition&)>& f) const;
};

class JournalDisk {
 public:
  static constexpr Duration kWriteBack = Duration::from_seconds(30);

  const std::string& bytes() const { return bytes_; }
  [[nodiscard]] Result<void> append(Instant now, std::string_view record);
  void cut(std::size_t size);
  Result<void> sync();
  // What was written last, and not synced, is lost. Its place may have zeros, or half of a record.
  void lose_power(Instant now, Rng& rng);
  void flip_bit(Rng& rng);
  void set_full(bool full) { full_ = full; }

 private:
  std::string bytes_;
  std::deque<std::pair<Instant, std::size_t>> sizes_;  // of the last kWriteBack
  std::size_t synced_ = 0;                             // so much of it stays
  bool full_ = false;
};

// What a server process has of its disk. It ends with the process.
class SnapshotStorage final : public server::Storage {
 public:
  struct Hooks {
    std::function<std::uint64_t(const server::ShardSnapshot&)> saving;       // returns its `save`
    std::function<void(std::uint64_t number, const SavedSnapshot&)> loaded;  // it was asked for
    std::function<bool()> frozen;
    std::function<void()> told;  // the end of a save can be polled
  };
  // Lifetime: of all, longer than this.
  SnapshotStorage(Events& events, SnapshotDisk& disk, Hooks hooks, Bug bug)
      : events_(events), disk_(disk), hooks_(std::move(hooks)), bug_(bug) {}

  Inventory list() override;
  Result<server::ShardSnapshot> load(const proto::SnapshotInfo& info) override;
  void save(server::ShardSnapshot snapshot, std::uint64_t keep) override;
  std::optional<Result<void>> poll_saved() override;
  bool journals() const override { return disk_.journals; }
  void begin_part(const Part& part) override;
  std::uint64_t append(server::LogBuffer log, std::uint64_t commits) override;
  void sync() override;
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

  // The process ends in order: what it writes, it writes to the end. Returns: that save().
  std::optional<std::uint64_t> finish();
  bool writes() const { return writing_ != nullptr; }

 private:
  std::uint64_t commits_after(const proto::SnapshotInfo& info) const;
  std::size_t slot_for(const proto::SnapshotInfo& next, std::uint64_t keep) const;
  void write(const std::shared_ptr<SavedSnapshot>& next, std::size_t slot);
  void begin_sync();
  void end_sync(std::uint64_t position, std::uint64_t items);

  Events& events_;
  SnapshotDisk& disk_;
  Hooks hooks_;
  Bug bug_;
  std::shared_ptr<SavedSnapshot> writing_;
  std::size_t writing_slot_ = 0;
  std::uint64_t writing_behind_ = 0;  // so much of the journal is on disk before it
  std::optional<Result<void>> saved_;
  struct Unmarked {
    std::size_t part = 0, addition = 0;
    std::uint64_t position = 0;
  };
  std::vector<Unmarked> unmarked_;
  std::uint64_t position_ = 0, synced_ = 0, told_ = 0;
  bool syncing_ = false, sync_again_ = false;
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
  std::deque<Marked> marked_;  // not told yet
  std::optional<std::uint64_t> replayed_;
  bool refused_ = false;  // an addition found no room
  // So often the journal has begun to go on from nothing; the same when the save began that comes.
  std::uint64_t breaks_ = 0, saving_breaks_ = 0;
  bool holds_answers_ = false;
};

}  // namespace rubato::simulation
