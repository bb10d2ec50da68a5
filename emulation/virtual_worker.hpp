// emulation/virtual_worker.hpp - a worker of the virtual cluster: its core, and the step that its
// device is at. Deterministic. Units: virtual time. Threads: one owner.
#pragma once

#include <memory>
#include <optional>

#include "emulation/device_model.hpp"
#include "worker/forward_clock.hpp"
#include "worker/worker_core.hpp"
#include "worker/worker_timeline.hpp"

namespace rubato::emulation {

struct VirtualWorker {
  std::unique_ptr<worker::WorkerCore> core;
  StepTimes step_times;
  bool stepping = false;
  bool arriving = false;  // stepping on parameters of which some are still under way
  Instant step_began = {};
  Duration step_takes = {};           // waits for parameters not counted
  train::StepPlan plan = {};          // of that step, its batch never 0
  worker::ForwardClock forward = {};  // of that step, where it began early
  worker::WorkerTimeline timeline;

  // A step begins, early if the core says so. `batch`: samples of one, as configured.
  void begin_step(Instant now, int batch);
  // After any event, while `arriving`. Returns: when the step ends, once: when the last of its
  // parameters are here.
  std::optional<Instant> early_end(Instant now);
  // The step is over: tells the core.
  void end_step(Instant now, double loss_sum);
};

}  // namespace rubato::emulation
