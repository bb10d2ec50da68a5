// server/storage.hpp - where a server keeps durable copies of its shard.
// A snapshot is all that a shard needs to go on with the same bits in another process. A storage
// belongs to one shard. It keeps the two snapshots that were written last, so that one that is half
// written, or damaged, leaves another.
// Writing takes its time elsewhere: save() only begins it, and poll_saved() tells the end.
// Implementations: server/file_storage.hpp (a directory), server/memory_storage.hpp (tests and the
// virtual cluster). tests/server/storage_test.cpp is the suite that each of them passes.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "proto/messages.hpp"
#include "server/shard.hpp"

namespace rubato::server {

inline constexpr std::uint64_t kSnapshotsKept = 2;

struct ShardSnapshot {
  std::uint64_t cluster = 0;
  proto::SnapshotInfo info;
  ElementRange range;       // of the shard
  std::string settings;     // as in Hello: the form of the shard follows from them
  std::uint32_t phase = 0;  // sync::Phase::number that the gate heard last
  ShardState state;
};

class Storage {
 public:
  virtual ~Storage() = default;

  struct Found {
    proto::SnapshotInfo info;
    std::string name;  // for messages: the file
  };
  struct Inventory {
    std::vector<Found> snapshots;      // whole ones of this cluster, the newest last
    std::vector<std::string> refused;  // what else is there: one line each, with name and reason
  };
  // Reads and checks everything: call it once, before anybody waits.
  virtual Inventory list() = 0;
  // Corrupt or Io, one line that names the file, or says that the snapshot is not here.
  [[nodiscard]] virtual Result<ShardSnapshot> load(const proto::SnapshotInfo& info) = 0;

  // Begins to write, over the older of the two snapshots; not over number `keep` of the same run,
  // which all servers have. Requires: poll_saved() has told the end of the last one.
  virtual void save(ShardSnapshot snapshot, std::uint64_t keep) = 0;
  // The end of the last save(), once: Io, one line, if it is not on disk.
  [[nodiscard]] virtual std::optional<Result<void>> poll_saved() = 0;
};

}  // namespace rubato::server
