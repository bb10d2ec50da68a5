#include "sync/dylu.hpp"

#include <fmt/format.h>

#include "sync/model_row.hpp"
#include "sync/steps_by_speed.hpp"

namespace rubato::sync {

void DyluTuner::on_leave(Instant now, WorkerId worker) {
  QueuedTuner::on_leave(now, worker);
  ordered_.erase(worker);
  if (all_timed()) update_all(now);
}

// One report moves everybody's share only where it moves the fastest.
void DyluTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  QueuedTuner::on_progress(now, worker, progress);
  if (!all_timed()) return;
  if (fastest() != judged_ || ordered_.size() < members().size()) {
    update_all(now);
  } else {
    update(now, worker, progress);
  }
}

void DyluTuner::update_all(Instant now) {
  judged_ = fastest();
  for (const auto& [worker, progress] : members()) update(now, worker, progress);
}

void DyluTuner::update(Instant now, WorkerId worker, const WorkerProgress& progress) {
  const double share = speed_share(judged_, progress.step_time);
  const std::uint32_t steps = steps_by_speed(share, options_.local_steps);
  std::uint32_t& ordered = ordered_[worker];
  if (!steps_moved(ordered, steps)) return;
  ordered = steps;
  order(worker, {.local_steps = steps});
  decide({.at = now,
          .quantity = "local steps",
          .value = static_cast<double>(steps),
          .reason =
              fmt::format("worker {} runs at {:.0f} % of the fastest", worker.value, 100 * share)});
}

namespace rows {
Model dylu();
}

Model rows::dylu() {
  return {.info = {.name = "dylu",
                   .title = "DyLU",
                   .summary = "local steps in proportion to speed, applied at once, nobody waits",
                   .source = "Liu et al. 2024"},
          .options = {option<&DyluOptions::local_steps>(
              "local_steps", "mini-batches per commit of the fastest worker", kAtLeastOne)},
          .tuner = [](const Options& o, const RunFacts&) -> std::unique_ptr<Tuner> {
            return std::make_unique<DyluTuner>(o.of<DyluOptions>());
          },
          .tries = {.options = {{{"local_steps", "8"}}}, .rates = {1, 2, 4}},
          .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
