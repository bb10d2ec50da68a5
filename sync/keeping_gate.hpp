// sync/keeping_gate.hpp - the gate of a model that may go back: it is the gate Base, and where the
// tuner says so, all shards keep parameters or make the kept ones theirs again.
// Kept are those that were evaluated last. Without an evaluator it is their average as it is.
// Before the first order it is the initial parameters.
// Pure. Threads: one owner. Errors: as Base.
#pragma once

#include <cstdint>
#include <utility>

#include "sync/model.hpp"

namespace rubato::sync {

// Phase::number counts the orders: keeping counts 1, going back 65,536. So a shard that misses an
// order still does what came of all.
inline constexpr std::uint32_t kKeepOrder = 1;
inline constexpr std::uint32_t kRestoreOrder = 1 << 16;

template <class Base>
class KeepingGate final : public Base {
 public:
  GateActions on_phase(Instant, const Phase& phase) override {
    const std::uint32_t before = std::exchange(number_, phase.number);
    const std::uint32_t restores = number_ / kRestoreOrder;
    if (restores != before / kRestoreOrder) return {.restore = restores};
    return {.keep = number_ != before};
  }

 private:
  std::uint32_t number_ = 0;
};

}  // namespace rubato::sync
