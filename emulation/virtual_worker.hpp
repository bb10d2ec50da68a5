// emulation/virtual_worker.hpp - a worker of the virtual cluster: its core, and the step that its
// device is at. Deterministic. Units: virtual time. Threads: one owner.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "emulation/device_model.hpp"
#include "emulation/virtual_node.hpp"
#include "train/device.hpp"
#include "worker/forward_clock.hpp"
#include "worker/worker_core.hpp"
#include "worker/worker_driver.hpp"
#include "worker/worker_timeline.hpp"

namespace rubato::emulation {

struct VirtualWorker : VirtualNode<worker::WorkerCore> {
  StepTimes step_times;
  worker::WorkerDriver driver;
  bool stepping = false;
  bool ended = false;     // its own loop has
  bool arriving = false;  // stepping, and some parameters are still under way
  Instant step_began = {};
  Duration step_takes = {};             // without waits for parameters
  CriticalPath::Cause step_cause = 0;   // it let the step begin
  CriticalPath::Cause reply_cause = 0;  // the arrival of the last chunk of parameters
  train::StepPlan plan = {};            // of that step, its batch never 0
  worker::ForwardClock forward = {};    // of that step, if it began early
  TraceProcess trace;
  worker::WorkerTimeline timeline;

  VirtualWorker(std::unique_ptr<worker::WorkerCore> its_core, const StepTimes& times,
                TraceProcess its_trace)
      : VirtualNode{std::move(its_core)},
        step_times(times),
        trace(its_trace),
        timeline(its_trace) {}

  // Its process ends. The device goes on: its slow spells and its jitter do.
  void end_life() {
    core.reset();
    driver = {};
    stepping = arriving = ended = false;
    timeline = worker::WorkerTimeline(trace);
  }

  void on_handled(Instant now, const proto::Message& message) {
    timeline.on_message(now, message, *core);
  }
  // For the run log: "worker 2".
  std::string title() const { return core->id() ? to_string(*core->id()) : "a joining worker"; }
  std::optional<std::string> poll_line() {
    const auto line = core->poll_log();
    return line ? std::optional(title() + ": " + *line) : std::nullopt;
  }

  // A step begins, early if the core says so. `batch`: samples of one, as configured.
  void begin_step(Instant now, int batch);
  // After any event, while `arriving`. Returns: when the step ends, once: when the last of its
  // parameters are here.
  std::optional<Instant> early_end(Instant now);
  // The step is over: tells the core.
  void end_step(Instant now, const train::BatchResult& result);
};

}  // namespace rubato::emulation
