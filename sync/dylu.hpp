// sync/dylu.hpp - Dynamic local updates: every worker takes as many local steps per commit as
// its speed allows, so that commits come equally often without waiting.
// Source: Liu et al., "Asynchronous local-SGD training for language modeling", arXiv 2401.09135,
// Sec. 5 (DyLU). Letters: v_i = 1 / t_i speed of worker i, tau the steps of the fastest,
// tau_i = max(1, floor(v_i / max_j v_j x tau)).
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include "sync/queued_tuner.hpp"

namespace rubato::sync {

struct DyluOptions {
  int local_steps = 40;  // tau of the fastest worker, >= 1
};

class DyluTuner final : public QueuedTuner {
 public:
  // Requires: valid options (sync/option_table.hpp).
  explicit DyluTuner(const DyluOptions& options) : options_(options) {}

  void on_leave(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;

 private:
  void update_all(Instant now);
  void update(Instant now, WorkerId worker, const WorkerProgress& progress);

  const DyluOptions options_;
  Duration judged_;  // the fastest step time that the last update of all was against
  std::map<WorkerId, std::uint32_t> ordered_;  // tau_i as last told
};

}  // namespace rubato::sync
