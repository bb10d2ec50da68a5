#include "emulation/virtual_worker.hpp"

namespace rubato::emulation {

void VirtualWorker::begin_step(Instant now, int batch) {
  stepping = true;
  step_began = now;
  plan = core->next_step();
  if (plan.batch == 0) plan.batch = static_cast<std::uint32_t>(batch);
  step_takes = step_times.next(now, static_cast<int>(plan.batch));
  arriving = core->next_action() == worker::WorkerCore::Action::TrainEarly;
  if (!arriving) return;
  core->on_early(now);
  forward.begin(core->forward(), now, step_takes, core->arrived());
}

std::optional<Instant> VirtualWorker::early_end(Instant now) {
  if (!core->early()) {  // no longer wanted
    arriving = stepping = false;
    return std::nullopt;
  }
  forward.on_arrived(now, core->arrived());
  const auto end = forward.end();
  if (end) arriving = false;
  return end;
}

void VirtualWorker::end_step(Instant now, const train::BatchResult& result) {
  stepping = false;
  timeline.on_step(step_began, now);
  core->on_step(now, {.spent = step_takes,
                      .loss_sum = result.loss_sum,
                      .samples = result.samples,
                      .rate = plan.rate});
}

}  // namespace rubato::emulation
