#include "cluster/evaluator_node.hpp"

#include "cluster/node_loop.hpp"
#include "train/evaluate.hpp"

namespace rubato::cluster {
namespace {

class EvaluatorHost : public IdleHost {
 public:
  EvaluatorHost(worker::EvaluatorCore& core, train::Device* device, const train::Dataset& held_out,
                const EvaluatorNodeOptions& options)
      : core_(core), device_(device), held_out_(held_out), options_(options) {}

  void drive() {
    while (core_.next_action() == worker::EvaluatorCore::Action::Evaluate) measure();
  }

 private:
  void measure() {
    const auto result = evaluate();
    const auto told = result.value_or(train::EvaluationResult{});
    const auto counts = core_.on_evaluated(steady_now(), told.loss, told.accuracy, told.classes);
    if (options_.saver && counts) save(*counts);
  }

  std::optional<train::EvaluationResult> evaluate() {
    if (!device_) return std::nullopt;
    const TraceSpan span(options_.trace ? options_.trace->lane() : nullptr, Span::Evaluate);
    device_->load(core_.parameters());
    return train::evaluate(*device_, held_out_, options_.samples_max, train::Measure::AndClasses);
  }

  void save(const worker::EvaluatorCore::Measured& measured) {
    auto facts = options_.facts();
    if (device_)
      facts.held_out = train::EvaluationResult{
          .loss = measured.loss, .accuracy = measured.accuracy, .classes = measured.classes};
    measured.last ? options_.saver->on_end(measured.parameters, facts)
                  : options_.saver->on_evaluated(measured.parameters, facts);
  }

  worker::EvaluatorCore& core_;
  train::Device* device_;
  const train::Dataset& held_out_;
  const EvaluatorNodeOptions& options_;
};

}  // namespace

Result<std::string> run_evaluator(proto::Transport& transport, worker::EvaluatorCore& core,
                                  train::Device* device, const train::Dataset& held_out,
                                  const EvaluatorNodeOptions& options,
                                  const std::stop_token& stop) {
  EvaluatorHost host(core, device, held_out, options);
  NodeLoop loop(transport, core, options.trace, host);
  RUBATO_TRY(loop.peers().connect_scheduler(options.scheduler));
  core.on_start(steady_now());
  return loop.run(stop);
}

}  // namespace rubato::cluster
