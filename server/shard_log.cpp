#include "server/shard_log.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "server/shard.hpp"

namespace rubato::server {
namespace {

using Kind = ShardOperation::Kind;

tl::unexpected<Error> no_log(const char* why) {
  return fail(ErrorCode::Corrupt, std::string("journal: ") + why);
}

// The guard of an operation that had one.
class ReplayGuard {
 public:
  explicit ReplayGuard(const ShardOperation& operation) : guard_{operation.most, false} {}
  UpdateGuard* get() { return guard_.most > 0 ? &guard_ : nullptr; }

 private:
  UpdateGuard guard_;
};

void carry_out(const ShardOperation& of, std::span<const float> floats, Shard& shard) {
  ReplayGuard guard(of);
  switch (of.kind) {
    case Kind::BeginUpdate:
      shard.begin_update(of.members, of.weight);
      return;
    case Kind::Apply:
      return shard.apply(
          of.offset, floats,
          {.rate = of.rate, .weight = of.scale_weight, .number = of.number, .delay = of.delay},
          Shard::Checksum::Skip, guard.get());
    case Kind::MoveTowards:
      return shard.move_towards(of.offset, floats, of.part, guard.get());
    case Kind::CountUpdate:
      return shard.count_update();
    case Kind::Collect:
      return shard.collect(of.offset, floats, of.part);
    case Kind::CountCollected:
      return shard.count_collected(of.weight);
    case Kind::Flush:
      return shard.flush();
    case Kind::Remember:
      return shard.remember(WorkerId{of.worker}, of.offset, floats,
                            {.by = of.part, .keep = of.rate, .later = of.number_of != 0});
    case Kind::TurnMemory:
      return shard.turn_memory();
    case Kind::Forget:
      return shard.forget(WorkerId{of.worker});
    case Kind::ForgetWorkers:
      return shard.forget_workers();
    case Kind::ApplyRemembered:
      return shard.apply_remembered(of.members);
    case Kind::Keep:
      return shard.keep();
    case Kind::Restore:
      return shard.restore(of.number_of);
    case Kind::Evaluated:
      shard.for_evaluator();
      return;
    case Kind::Phase:
      return;
  }
}

}  // namespace

std::span<const float> ShardLog::add(ShardOperation operation, std::span<const float> floats) {
  operation.count = floats.size();
  buffer_.add(std::as_bytes(std::span(&operation, 1)));
  if (floats.empty()) return {};
  const auto copy = buffer_.add(std::as_bytes(floats));
  // Heads and floats are multiples of 4 bytes, and so is the place of the first.
  return {reinterpret_cast<const float*>(copy.data()), floats.size()};
}

LogBuffer ShardLog::take(LogBuffer next) {
  return std::exchange(buffer_, std::move(next));
}

Result<void> replay(std::span<const std::byte> log, Shard& shard, std::uint32_t& phase) {
  std::vector<float> floats;
  const std::uint64_t size = shard.parameters().size();
  while (!log.empty()) {
    ShardOperation operation;
    if (log.size() < sizeof operation) return no_log("ends within an operation");
    std::memcpy(&operation, log.data(), sizeof operation);
    log = log.subspan(sizeof operation);
    if (operation.kind > Kind::TurnMemory) return no_log("has an operation that is unknown");
    if (operation.count > log.size() / sizeof(float)) return no_log("ends within an operation");
    if (operation.kind == Kind::Apply && operation.delay == 0)
      return no_log("has an update that no optimizer makes");
    if (operation.offset > size || operation.count > size - operation.offset)
      return no_log("has an operation beyond the shard");
    floats.resize(operation.count);
    if (!floats.empty()) std::memcpy(floats.data(), log.data(), operation.count * sizeof(float));
    log = log.subspan(operation.count * sizeof(float));
    if (operation.kind == Kind::Phase)
      phase = operation.number_of;
    else
      carry_out(operation, floats, shard);
  }
  return {};
}

}  // namespace rubato::server
