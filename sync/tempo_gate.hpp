// sync/tempo_gate.hpp - the gate of tempo: that of ASP, and where the tuner says so, all shards
// remember their parameters, or go back to what they remembered last.
// Source: docs/tempo.md. Pure. Threads: one owner. Errors: as ImmediateGate.
#pragma once

#include <cstdint>

#include "sync/immediate_gate.hpp"

namespace rubato::sync {

// Phase::number grows with each order to the shards: an odd one is to remember, an even one to go
// back.
constexpr std::uint32_t next_keep(std::uint32_t number) {
  return number % 2 == 0 ? number + 1 : number + 2;
}
constexpr std::uint32_t next_restore(std::uint32_t number) {
  return number % 2 == 0 ? number + 2 : number + 1;
}

class TempoGate final : public ImmediateGate {
 public:
  GateActions on_phase(Instant, const Phase& phase) override {
    if (phase.number == number_) return {};
    number_ = phase.number;
    using Checkpoint = GateActions::Checkpoint;
    return {.checkpoint = number_ % 2 == 1 ? Checkpoint::Keep : Checkpoint::Restore};
  }

 private:
  std::uint32_t number_ = 0;
};

}  // namespace rubato::sync
