// sync/tempo_gate.hpp - the gate of tempo: that of ASP, and where the tuner says so, all shards
// keep the parameters that were evaluated last, or without an evaluator their average as it is, or
// go back to those that they kept.
// Source: docs/tempo.md. Pure. Threads: one owner. Errors: as ImmediateGate.
#pragma once

#include <cstdint>
#include <utility>

#include "sync/immediate_gate.hpp"

namespace rubato::sync {

// Phase::number: how often the shards were told to keep, and 65,536 times how often to go back. So
// one that misses an order still does what came of all.
inline constexpr std::uint32_t kKeepOrder = 1;
inline constexpr std::uint32_t kRestoreOrder = 1 << 16;

class TempoGate final : public ImmediateGate {
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
