// emulation/virtual_training.hpp - what the workers and the evaluator of a virtual cluster compute:
// gradients, updates, held-out loss. Absent in a run of which only the timing counts.
// A gradient begins at the virtual start of its step and is finished at the virtual end, whoever
// computes it meanwhile, so that results do not depend on the number of threads.
// Two implementations: trainers of this process (emulation/replica_training.hpp), and processes
// with training loops of their own (emulation/process_training.hpp). Threads: all calls from one
// owner. Errors: Stopped: the worker's loop has ended, as a worker that leaves; Gone,
// Timeout: a process has failed or hangs.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "train/device.hpp"
#include "train/evaluate.hpp"
#include "train/step_plan.hpp"
#include "worker/worker_core.hpp"

namespace rubato::emulation {

// Of a step, in virtual seconds: when it begins, since training started, and what it lasts.
struct StepTime {
  double began = 0;
  double takes = 0;
};

class VirtualTraining {
 public:
  virtual ~VirtualTraining() = default;

  // Worker `index` of the plan. Each step that begins ends before the next call for that worker.
  [[nodiscard]] virtual Result<void> begin_step(std::uint32_t index, const train::StepPlan& plan,
                                                StepTime time) = 0;
  [[nodiscard]] virtual Result<train::BatchResult> end_step(std::uint32_t index) = 0;
  // A new process of the worker: it begins as the first one did. Requires: no step is under way.
  [[nodiscard]] virtual Result<void> restart(std::uint32_t index) = 0;
  struct Taking {
    bool elastic = false;    // W instead of U
    bool trains_on = false;  // most likely, before the next load()
  };
  // U.
  [[nodiscard]] virtual Result<worker::Update> take_update(std::uint32_t index, Taking taking) = 0;
  // Under the update accumulated since the last load, or, if it is dropped, in its place.
  enum class Since { Kept, Dropped };
  [[nodiscard]] virtual Result<void> load(std::uint32_t index, std::span<const float> parameters,
                                          Since since) = 0;

  // Lifetime: `parameters` stay as they are until end_evaluation().
  virtual void begin_evaluation(std::span<const float> parameters) = 0;
  [[nodiscard]] virtual Result<train::EvaluationResult> end_evaluation() = 0;
};

}  // namespace rubato::emulation
