#include "cluster/evaluator_node.hpp"

#include "cluster/node_loop.hpp"
#include "train/evaluate.hpp"

namespace rubato::cluster {
namespace {

struct EvaluatorHost : IdleHost {
  worker::EvaluatorCore& core;
  train::Device& device;
  const train::Dataset& held_out;
  const EvaluatorNodeOptions& options;

  void drive() {
    if (core.next_action() != worker::EvaluatorCore::Action::Evaluate) return;
    const auto result = [&] {
      const TraceSpan span(options.trace ? options.trace->lane() : nullptr, Span::Evaluate);
      device.load(core.parameters());
      return train::evaluate(device, held_out, options.samples_max);
    }();
    core.on_evaluated(steady_now(), result.loss, result.accuracy);
  }
};

}  // namespace

Result<std::string> run_evaluator(proto::Transport& transport, worker::EvaluatorCore& core,
                                  train::Device& device, const train::Dataset& held_out,
                                  const EvaluatorNodeOptions& options,
                                  const std::stop_token& stop) {
  EvaluatorHost host{{}, core, device, held_out, options};
  NodeLoop loop(transport, core, options.trace, host);
  RUBATO_TRY(loop.peers().connect_scheduler(options.scheduler));
  core.on_start(steady_now());
  return loop.run(stop);
}

}  // namespace rubato::cluster
