// worker/worker_driver.hpp - what a worker does between two steps, and in which order. The core
// says what is due; the driver has it done by the hands: those of a real device, of the virtual
// cluster, of the simulator. A loop of the user's own is not driven, it asks for its turns
// (cluster/worker_client.hpp).
// Pure. Errors: none of its own. Threads: as the core.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "base/time.hpp"
#include "worker/worker_core.hpp"

namespace rubato::worker {

template <class T>
concept WorkerHands = requires(T hands, bool flag, Instant now) {
  { hands.now() } -> std::same_as<Instant>;
  // A step is under way, or something else for which the worker waits, or it has ended.
  { hands.busy() } -> std::same_as<bool>;
  hands.begin_step(flag);  // true: an early one
  // What is committed. Nothing: the worker has ended.
  { hands.take() } -> std::same_as<std::optional<Update>>;
  hands.drop();  // the update accumulated since the last load
  // core.parameters(), under that update. true: they are on the device already, staged.
  // Returns false: the worker has ended.
  { hands.load(flag) } -> std::same_as<bool>;
  hands.on_loaded(now);  // the core knows
};

// A device that packs an update, or takes parameters, while it steps.
template <class T>
concept CopyingHands = WorkerHands<T> && requires(T hands, Instant now) {
  { hands.copies() } -> std::same_as<bool>;  // this device does
  hands.begin_taking(now);                   // then core.on_commit()
  hands.begin_staging();                     // then WorkerDriver::on_staged()
};

// A worker that may be asked for the initial values of a model.
template <class T>
concept SeedingHands = requires(T hands) {
  { hands.seed() } -> std::same_as<Update>;
};

class WorkerDriver {
 public:
  // Does what is due until a step begins or the core waits for a message.
  template <WorkerHands Hands>
  void drive(WorkerCore& core, Hands&& hands);
  // What begin_staging() began is done.
  void on_staged(WorkerCore& core) {
    core.on_staged();
    staged_ = true;
  }

 private:
  template <class Hands>
  bool commit(WorkerCore& core, Hands& hands);
  template <class Hands>
  bool load(WorkerCore& core, Hands& hands);

  bool staged_ = false;  // the parameters to load are on the device
};

template <WorkerHands Hands>
void WorkerDriver::drive(WorkerCore& core, Hands&& hands) {
  while (!hands.busy()) {
    switch (core.next_action()) {
      case WorkerCore::Action::Train:
        return hands.begin_step(false);
      case WorkerCore::Action::TrainEarly:
        return hands.begin_step(true);
      case WorkerCore::Action::Commit:
        if (!commit(core, hands)) return;
        break;
      case WorkerCore::Action::Restart:
        hands.drop();
        [[fallthrough]];
      case WorkerCore::Action::Load:
        if (!load(core, hands)) return;
        break;
      case WorkerCore::Action::Seed:
        if constexpr (SeedingHands<Hands>) {
          core.on_seed(hands.now(), hands.seed());
          break;
        } else {
          return;
        }
      case WorkerCore::Action::Wait:
      case WorkerCore::Action::Finish:
      case WorkerCore::Action::Fail:
        return;
    }
  }
}

template <class Hands>
bool WorkerDriver::commit(WorkerCore& core, Hands& hands) {
  if constexpr (CopyingHands<Hands>) {
    if (hands.copies() && core.may_take_beside_steps()) {
      const Instant now = hands.now();
      hands.begin_taking(now);
      core.on_taking(now);
      return true;
    }
  }
  auto update = hands.take();
  if (!update) return false;
  core.on_commit(hands.now(), std::move(*update));
  return true;
}

template <class Hands>
bool WorkerDriver::load(WorkerCore& core, Hands& hands) {
  // A worker that joined again since has to load what it has pulled.
  const bool staged = std::exchange(staged_, false) && core.may_stage_beside_steps();
  if constexpr (CopyingHands<Hands>) {
    if (!staged && hands.copies() && core.may_stage_beside_steps()) {
      core.on_staging();
      hands.begin_staging();
      return true;
    }
  }
  if (!hands.load(staged)) return false;
  const Instant now = hands.now();
  core.on_loaded(now);
  hands.on_loaded(now);
  return true;
}

}  // namespace rubato::worker
