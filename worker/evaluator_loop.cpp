#include "worker/evaluator_loop.hpp"

#include <algorithm>

#include "train/evaluate.hpp"
#include "worker/node_peers.hpp"

namespace rubato::worker {
namespace {

constexpr Duration kWaitMax = Duration::from_ms(200);

}  // namespace

Result<std::string> run_evaluator(proto::Transport& transport, EvaluatorCore& core,
                                  train::Device& device, const train::Dataset& held_out,
                                  const EvaluatorLoopOptions& options, std::stop_token stop) {
  NodePeers peers(transport);
  RUBATO_TRY(peers.connect_scheduler(options.scheduler));
  core.on_start(steady_now());
  while (!stop.stop_requested()) {
    if (core.next_action() == EvaluatorCore::Action::Evaluate) {
      const auto result = [&] {
        const TraceSpan span(options.trace, Span::Evaluate);
        device.load(core.parameters());
        return train::evaluate(device, held_out, options.samples_max);
      }();
      core.on_evaluated(steady_now(), result.loss, result.accuracy);
    }
    if (core.shards()) RUBATO_TRY(peers.connect_servers(*core.shards()));
    while (auto out = core.poll_send()) {
      // What cannot be sent is pulled again at the next deadline; send() has logged it.
      [[maybe_unused]] const auto sent = peers.send(out->to, out->message);
    }
    if (core.failure()) return tl::unexpected<Error>(*core.failure());
    if (core.stopped()) return *core.stopped();

    Duration timeout = kWaitMax;
    if (const auto at = core.poll_wakeup())
      timeout = std::clamp(*at - steady_now(), Duration{}, timeout);
    RUBATO_ASSIGN(auto received, transport.receive(timeout));
    const Instant now = steady_now();
    if (received) {
      RUBATO_ASSIGN(const bool heard, peers.accept(*received));
      if (heard) core.on_message(now, received->message->sender, *received->message);
    }
    if (const auto at = core.poll_wakeup(); at && *at <= now) core.on_wakeup(now);
  }
  return std::string("interrupted");
}

}  // namespace rubato::worker
