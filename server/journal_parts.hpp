// server/journal_parts.hpp - the journal of a shard on disk: a file for each part
// (server/storage.hpp), written by a thread of its own. The thread writes
// all additions that wait, and syncs once for all of them. XXH3 over each addition finds where a
// file is whole to. Files: <server>.<index>.journal, the index one higher each time; a head, then
// additions. Threads: one owner; the writing thread has only what it was given. Errors: Io, one
// line with the file. Memory: what is not yet written.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "server/storage.hpp"

namespace rubato::server {

struct JournalPlace {
  std::string directory;
  std::string server;
  std::uint64_t cluster = 0;
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

// All parts of this server and cluster, by index. Reads and checks everything. `refused`: lines
// about files that are none.
std::vector<FoundPart> find_parts(const JournalPlace& place, std::vector<std::string>& refused);

// Which parts lead on from the snapshot, in order; none: it has no journal.
std::vector<FoundPart> parts_after(const std::vector<FoundPart>& parts,
                                   const proto::SnapshotInfo& info);

// Calls f(log) for each whole addition of a part. Returns: the error of f or of reading.
[[nodiscard]] Result<void> read_part(const FoundPart& part, const Storage::Replay& f);

class PartWriter {
 public:
  // `found`: what is there. `wake`: called on the writing thread when more is on disk, or never
  // will be; may be empty.
  PartWriter(JournalPlace place, const std::vector<FoundPart>& found, std::function<void()> wake);
  // All additions are on disk then, unless the disk refuses them.
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  // As of Storage. begin(): returns the part's index.
  std::uint64_t begin(const Storage::Part& part);
  std::uint64_t append(std::vector<std::byte> log, std::uint64_t commits);
  [[nodiscard]] Result<std::uint64_t> synced();
  // Removes the files of parts below `index`, but none of another run.
  void remove_below(std::uint64_t index);

 private:
  struct Begin {
    std::uint64_t index = 0;
    Storage::Part part;
  };
  struct Addition {
    std::vector<std::byte> log;
    std::uint64_t commits = 0;
  };
  using Task = std::variant<Begin, Addition>;

  void write_all(const std::stop_token& stop);
  [[nodiscard]] Result<void> write(std::vector<Task>& tasks);
  [[nodiscard]] Result<void> begin_file(const Begin& begin);
  [[nodiscard]] Result<void> sync();

  const JournalPlace place_;
  const std::function<void()> wake_;
  std::uint64_t next_index_ = 0;
  std::uint64_t position_ = 0;
  std::vector<std::pair<std::uint64_t, std::string>> files_;  // of this run, by index
  Incarnation run_ = 0;
  // Of the writing thread.
  int file_ = -1;
  std::string path_;
  std::uint64_t written_ = 0;  // bytes of the file, or of the newest one that was found
  std::mutex mutex_;           // guards the members below
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  std::uint64_t synced_ = 0;
  std::optional<Error> failure_;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace rubato::server
