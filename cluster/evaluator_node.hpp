// cluster/evaluator_node.hpp - a real evaluator: its loop, which measures on the calling thread.
// Threads: the caller's, until the run is over or `stop` is requested.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>

#include "base/result.hpp"
#include "cluster/model_saver.hpp"
#include "proto/loop_trace.hpp"
#include "proto/transport.hpp"
#include "train/data/dataset.hpp"
#include "train/device.hpp"
#include "worker/evaluator_core.hpp"

namespace rubato::cluster {

struct EvaluatorNodeOptions {
  std::string scheduler;              // endpoint
  std::size_t samples_max = 0;        // of the held-out data; 0: all
  proto::LoopTrace* trace = nullptr;  // null: not profiled
  ModelSaver* saver = nullptr;        // null: the model is not saved
  // Of the moment, with the result where others have measured it; with a saver.
  std::function<ModelSaver::Facts()> facts;
};

// `device`: null where nothing is held out and the core has only its last pull, for the saver.
// Returns: why the run ended, or the error of the core or the transport.
[[nodiscard]] Result<std::string> run_evaluator(proto::Transport& transport,
                                                worker::EvaluatorCore& core, train::Device* device,
                                                const train::Dataset& held_out,
                                                const EvaluatorNodeOptions& options,
                                                const std::stop_token& stop);

}  // namespace rubato::cluster
