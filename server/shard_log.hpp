// server/shard_log.hpp - what was done to a shard, operation by operation, as bytes, and the shard
// that the same operations make again, to the bit. The journal of a server (server/storage.hpp) is
// made of it.
// Floats of an update are copied first and used from the copy. So what another process changes in
// shared memory meanwhile is in the log as it is in the shard.
// Pure. Shapes: an operation is a head of fixed size and `count` floats. Little-endian. Threads:
// one owner. Errors: Corrupt for bytes that no log has written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "server/log_buffer.hpp"
#include "server/optimizer.hpp"

namespace rubato::server {

class Shard;

struct ShardOperation {
  enum class Kind : std::uint32_t {
    BeginUpdate,
    Apply,
    MoveTowards,
    CountUpdate,
    Collect,
    CountCollected,
    Flush,
    Remember,
    Forget,
    ForgetWorkers,
    ApplyRemembered,
    Keep,
    Restore,
    Evaluated,
    Phase,  // of the server, not of the shard
    TurnMemory,
  };
  Kind kind = Kind::BeginUpdate;
  std::uint32_t worker = 0;
  std::uint32_t number_of = 0;  // Restore: of restores; Phase: sync::Phase::number; Remember: later
  float part = 0;               // MoveTowards: part; Collect, Remember: by
  float most = 0;               // Apply, MoveTowards: as UpdateGuard; 0: no guard
  float rate = 0;               // Apply: of Optimizer::Scale, as the next three; Remember: keep
  float scale_weight = 0;
  std::uint32_t unused = 0;
  std::uint64_t number = 0;
  std::uint64_t delay = 0;
  std::uint64_t offset = 0;
  std::uint64_t count = 0;  // floats behind the head
  std::uint64_t members = 0;
  double weight = 0;  // BeginUpdate, CountCollected
};
static_assert(sizeof(ShardOperation) == 80, "no padding: it is written as it lies in memory");

class ShardLog {
 public:
  // Adds an operation. Returns: its floats in the log. Lifetime: until the next call.
  std::span<const float> add(ShardOperation operation, std::span<const float> floats = {});
  bool empty() const { return buffer_.empty(); }
  // All since the last call. `next`: empty, for what comes now.
  LogBuffer take(LogBuffer next = {});

 private:
  LogBuffer buffer_;
};

// Does all operations of `log` to `shard`; `phase` becomes the last one in it, if any. Corrupt:
// `log` ends within an operation, or has one that does not fit the shard.
[[nodiscard]] Result<void> replay(std::span<const std::byte> log, Shard& shard,
                                  std::uint32_t& phase);

}  // namespace rubato::server
