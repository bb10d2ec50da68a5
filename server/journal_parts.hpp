// server/journal_parts.hpp - the journal of a shard on disk: a file for each part
// (server/storage.hpp), written in turns of the disk (base/disk.hpp): on a thread of its own, which
// has only what it was given. A turn writes the additions that have come. It syncs when somebody
// waits, once for all that were added meanwhile, up to a limit. XXH3 over each addition finds where
// a file is whole to. Files: <server>.<index>.journal, the index one higher each time; a head, then
// additions, each of whole blocks (server/log_buffer.hpp). They go past the system's cache of pages
// where it lets them (O_DIRECT): to fill the cache costs more than the disk takes. Threads: one
// owner. Errors: Io, one line with the file. Memory: see Limits, and one addition.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/disk.hpp"
#include "base/result.hpp"
#include "server/storage.hpp"

namespace rubato::server {

struct JournalPlace {
  std::string directory;
  std::string server;
  std::uint64_t cluster = 0;
  Disk* disk = &system_disk();  // lifetime: longer than all that uses this place
};

// A part as it lies on disk.
struct FoundPart {
  std::uint64_t index = 0;
  Storage::Part part;
  std::uint64_t follows = 0;  // how long the part before was when this one began, in bytes
  std::uint64_t bytes = 0;    // that are whole
  std::uint64_t size = 0;     // of the file
  std::uint64_t commits = 0;  // in the additions that are whole
  std::string path;
};

struct FoundParts {
  std::vector<FoundPart> parts;  // of this server and cluster, by index
  std::uint64_t next_index = 0;  // above those that the names of all files tell, also refused ones
};
// Reads and checks everything, and syncs it: an earlier process may have left it in the system's
// cache. `refused`: lines about files that are no part.
FoundParts find_parts(const JournalPlace& place, std::vector<std::string>& refused);

// Removes the parts of this server and cluster that belong to another run than this one.
void remove_other_runs(const JournalPlace& place, Incarnation run);

// Which parts lead on from the snapshot, in order; none: it has no journal.
std::vector<FoundPart> parts_after(const std::vector<FoundPart>& parts,
                                   const proto::SnapshotInfo& info);

struct PartRead {
  std::uint64_t commits = 0;  // in the additions that f took
  Result<void> done;          // the error of f or of reading; Corrupt: less is whole than was found
};
// Calls f(log) for each whole addition of a part, in order.
PartRead read_part(const JournalPlace& place, const FoundPart& part, const Storage::Replay& f);

class PartWriter {
 public:
  struct Limits {
    std::size_t group_bytes = std::size_t{8} << 20;      // written, and synced, at once
    std::size_t waiting_bytes = std::size_t{256} << 20;  // then append() waits
    std::size_t spare_bytes = std::size_t{32} << 20;     // kept for what comes
  };

  // `found`: what is there. `wake`: called in a turn when more is on disk, or never will be; may be
  // empty.
  PartWriter(JournalPlace place, const FoundParts& found, std::function<void()> wake,
             const Limits& limits);
  // finish()
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  // As of Storage. begin(): returns the part's index.
  std::uint64_t begin(const Storage::Part& part);
  std::uint64_t append(LogBuffer log, std::uint64_t commits);
  LogBuffer spare();
  void sync();
  [[nodiscard]] Result<std::uint64_t> synced();
  // Whether this part is on disk, with all before it. For any thread.
  [[nodiscard]] Result<bool> begun(std::uint64_t index);
  // All additions are on disk then, unless the disk refuses them. Nothing is called after it.
  void finish();
  // Removes the files of parts below `index`, but none of another run.
  void remove_below(std::uint64_t index);

 private:
  struct Begin {
    std::uint64_t index = 0;
    Storage::Part part;
  };
  struct Addition {
    LogBuffer log;
    std::uint64_t commits = 0;
  };
  struct Sync {};
  using Task = std::variant<Begin, Addition, Sync>;
  struct Group {
    std::vector<Task> tasks;
    std::size_t bytes = 0;
  };

  using Blocks = std::vector<std::span<const std::byte>>;

  void add(Task task);
  // The turns.
  bool take();
  void carry_out();
  Group next_group();
  // Returns: whether all that was written is on disk.
  [[nodiscard]] Result<bool> write(std::vector<Task>& tasks);
  [[nodiscard]] Result<void> write_blocks(const Blocks& blocks);
  [[nodiscard]] Result<void> begin_file(const Begin& begin);
  [[nodiscard]] Result<void> sync_file();
  // Keeps the memory of what was written.
  void keep_spares(std::vector<Task>& tasks);

  const JournalPlace place_;
  const std::function<void()> wake_;
  const Limits limits_;
  std::uint64_t next_index_ = 0;
  std::uint64_t position_ = 0;
  std::vector<std::pair<std::uint64_t, std::string>> files_;  // of this run, by index
  Incarnation run_ = 0;
  // Of the turns.
  std::unique_ptr<DiskFile> file_;  // null: no part has begun
  std::string path_;
  std::uint64_t written_ = 0;    // bytes of the file, or of the newest one that was found
  std::uint64_t part_sum_ = 0;   // of its head
  std::uint64_t additions_ = 0;  // written
  Group group_;                  // that is being written
  std::mutex mutex_;             // guards the members below
  std::condition_variable written_some_;
  std::optional<std::uint64_t> begun_;  // the newest part on disk
  std::deque<Task> tasks_;
  std::size_t waiting_bytes_ = 0;  // in tasks_, and in the group that is being written
  std::vector<LogBuffer> spares_;
  std::size_t spare_bytes_ = 0;
  std::uint64_t synced_ = 0;
  std::optional<Error> failure_;
  std::unique_ptr<Turns> turns_;  // last: they use the members above
};

}  // namespace rubato::server
