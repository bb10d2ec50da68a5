// sync/batched_adsp.hpp - ADSP whose workers take mini-batches in proportion to speed: the tuners
// of ADSP and of BatchTune side by side. Source: Hu, Wang, Wu, AAAI 2020 (the batches of ADSP++);
// sync/batch_tuner.hpp for the split.
//
// ADSP's equal commit counts stay: a worker commits on its timer, in which all make as many steps
// where all steps take as long. A directive is whole, so each order of one tuner repeats what the
// other has last said of that worker. Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sync/adsp_tuner.hpp"
#include "sync/batch_tuner.hpp"

namespace rubato::sync {

class BatchedAdsp final : public Tuner {
 public:
  // Requires: valid options (sync/option_table.hpp), batch >= 1.
  BatchedAdsp(const AdspOptions& options, std::uint64_t parameter_bytes, int batch);

  void on_start(Instant now) override;
  void on_join(Instant now, WorkerId worker) override;
  void on_leave(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;
  void on_evaluation(Instant now, const EvaluationPoint& point) override;
  void on_wakeup(Instant now) override;
  std::optional<Instant> poll_wakeup() const override { return rates_.poll_wakeup(); }
  std::optional<Order> poll_order() override;
  std::optional<Decision> poll_decision() override;
  const Phase& phase() const override { return rates_.phase(); }

 private:
  AdspTuner rates_;
  BatchTuner batches_;
  std::map<WorkerId, Directive> told_;  // by both together
};

}  // namespace rubato::sync
