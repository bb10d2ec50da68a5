// worker/evaluator_loop.hpp - drives an EvaluatorCore over a Transport in real time, measuring on
// the calling thread. Threads: the caller's, until the run is over or `stop` is requested.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>

#include "base/result.hpp"
#include "base/trace.hpp"
#include "proto/transport.hpp"
#include "train/dataset.hpp"
#include "train/device.hpp"
#include "worker/evaluator_core.hpp"

namespace rubato::worker {

struct EvaluatorLoopOptions {
  std::string scheduler;        // endpoint
  std::size_t samples_max = 0;  // of the held-out data; 0: all
  TraceLane* trace = nullptr;   // null: not profiled
};

// Returns: why the run ended, or the core's or the transport's error.
[[nodiscard]] Result<std::string> run_evaluator(proto::Transport& transport, EvaluatorCore& core,
                                                train::Device& device,
                                                const train::Dataset& held_out,
                                                const EvaluatorLoopOptions& options,
                                                std::stop_token stop);

}  // namespace rubato::worker
