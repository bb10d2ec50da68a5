// server/storage.hpp - where a server keeps durable copies of its shard.
// A snapshot is all that a shard needs to go on with the same bits in another process. A storage
// belongs to one shard. It keeps the two snapshots that were written last, so that one that is half
// written, or damaged, leaves another.
// Writing takes its time elsewhere: save() only begins it, and poll_saved() tells the end.
// It may keep a journal, too: what was done to the shard since a snapshot (server/shard_log.hpp),
// in parts. A part names the snapshot that it goes on from, or goes on from the part before. So a
// snapshot and the parts after it make the shard again as it was when the process died.
// Implementations: server/file_storage.hpp (a directory), server/memory_storage.hpp (tests and the
// virtual cluster). tests/server/storage_test.cpp is the suite that each of them passes.
// Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "proto/messages.hpp"
#include "server/log_buffer.hpp"
#include "server/shard.hpp"

namespace rubato::server {

using proto::kSnapshotsKept;

struct ShardSnapshot {
  std::uint64_t cluster = 0;
  proto::SnapshotInfo info;
  ElementRange range;       // of the shard
  std::string settings;     // of the cluster, one a line: the form of the shard follows from them
  std::uint32_t phase = 0;  // sync::Phase::number that the gate heard last
  ShardState state;
};

class Storage {
 public:
  virtual ~Storage() = default;

  struct Found {
    proto::SnapshotInfo info;
    std::string name;                   // for messages: the file
    ElementRange range = {};            // of the shard
    std::uint64_t journal_commits = 0;  // in the parts after it
  };
  struct Inventory {
    std::vector<Found> snapshots;      // whole ones of this cluster, the newest last
    std::vector<std::string> refused;  // what else is there: one line each, with name and reason
  };
  // Reads and checks everything: call it once, before anybody waits. All that it finds
  // outlasts a loss of power, whoever wrote it. Else others could go on from what then is gone.
  virtual Inventory list() = 0;
  // Corrupt or Io, one line that names the file, or says that the snapshot is not here.
  [[nodiscard]] virtual Result<ShardSnapshot> load(const proto::SnapshotInfo& info) = 0;

  // Begins to write, over the older of the two snapshots; not over number `keep` of the same run,
  // which all servers have; 0: they have none in common. Once it is written, and there is such a
  // number, journals of other runs are removed. Requires: poll_saved() has told the end of the last
  // one.
  virtual void save(ShardSnapshot snapshot, std::uint64_t keep) = 0;
  // The end of the last save(), once: Io, one line, if it is not on disk.
  [[nodiscard]] virtual std::optional<Result<void>> poll_saved() = 0;

  // Whether it keeps a journal. If not, nothing below is called.
  virtual bool journals() const { return false; }
  struct Part {
    Incarnation run = 0;
    std::uint64_t base = 0;      // its first state is that of this snapshot; 0: of none
    std::uint32_t setbacks = 0;  // of the run, when it began
    bool continues = true;       // its first state is the last one of the part before
  };
  // Begins a part. What is added from now on belongs to it. The part that goes on from a snapshot
  // begins before its save(), and is on disk first: else a snapshot could be there without what
  // came after it.
  virtual void begin_part(const Part&) { no_journal(); }
  // Adds what a ShardLog gave, which has so many commits in it. A disk that is much slower than
  // what is added makes it wait. Returns: the position behind it, which grows with each call.
  virtual std::uint64_t append(LogBuffer /*log*/, std::uint64_t /*commits*/) {
    no_journal();
    return 0;
  }
  // An empty buffer for the next log, with memory that was in use before where there is some.
  virtual LogBuffer spare() { return {}; }
  // Somebody waits until all that was added is on disk: some time later it is.
  virtual void sync() { no_journal(); }
  // All before this position is on disk. Io, one line: the journal cannot be written any more.
  [[nodiscard]] virtual Result<std::uint64_t> synced() {
    no_journal();
    return 0;
  }
  // Calls f(log) for what was added after the snapshot was taken, in order, as far as it is whole
  // and f succeeds; nothing if the run had another number of setbacks then.
  using Replay = std::function<Result<void>(std::span<const std::byte>)>;
  struct Replayed {
    std::uint64_t commits = 0;
    bool whole = false;              // a part that begins now goes on from it
    std::vector<std::string> lines;  // about what is not whole
  };
  virtual Replayed replay(const proto::SnapshotInfo&, std::uint32_t /*setbacks*/, const Replay&) {
    no_journal();
    return {};
  }

 private:
  static void no_journal() { RUBATO_CHECK(false, "this storage keeps no journal"); }
};

}  // namespace rubato::server
