// FedNova: rounds of unequal local steps, in which the mean step of each worker counts alike:
//     d_i = U_i / a_i;  W <- W - eta a (d_1 + ... + d_m),  a = (a_1 + ... + a_m) / m.
// Source: Wang, Liu, Liang, Joshi, Poor, "Tackling the objective inconsistency problem in
// heterogeneous federated optimization", NeurIPS 2020, arXiv 2007.07481, Sec. 4, for local SGD.
// Letters: U_i is the update of worker i, a_i its local steps in a round, and a their mean. These
// are the norm of the paper's vector a_i, for SGD without momentum, and its effective tau. There
// are m members, eta is the global rate, 1/m unless given, and tau the steps of the fastest worker.
//
// A fast worker makes more local steps, as under DyLU, so nobody waits long. Without the norm its
// data would count for more. The paper weighs workers by their samples; here all count alike, as
// in every model. Until all speeds are known, every worker commits every step.
#include <fmt/format.h>

#include <map>

#include "sync/model_row.hpp"
#include "sync/queued_tuner.hpp"
#include "sync/steps_by_speed.hpp"

namespace rubato::sync {
namespace {

struct FedNovaOptions {
  int local_steps = 40;  // tau >= 1
};

class FedNovaTuner final : public QueuedTuner {
 public:
  explicit FedNovaTuner(const FedNovaOptions& options) : options_(options) {}

  void on_leave(Instant now, WorkerId worker) override {
    QueuedTuner::on_leave(now, worker);
    if (told_.erase(worker) == 1 && !members().empty()) update(now);
  }

  // One report changes another worker's steps only if it changes the fastest.
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override {
    QueuedTuner::on_progress(now, worker, progress);
    if (!all_timed()) return;
    if (fastest() != judged_ || told_.size() < members().size() ||
        steps_moved(told_.at(worker), steps_of(progress)))
      update(now);
  }

 private:
  std::uint32_t steps_of(const WorkerProgress& progress) const {
    return steps_by_speed(speed_share(fastest(), progress.step_time), options_.local_steps);
  }

  // The steps of one worker are in the weights of all.
  void update(Instant now) {
    if (!all_timed()) return;
    judged_ = fastest();
    bool any = told_.size() != weighed_;
    for (const auto& [worker, progress] : members()) {
      std::uint32_t& told = told_[worker];
      if (!steps_moved(told, steps_of(progress))) continue;
      told = steps_of(progress);
      any = true;
    }
    if (!any) return;
    weighed_ = told_.size();
    double mean = 0;  // a
    for (const auto& [worker, steps] : told_) mean += steps / static_cast<double>(told_.size());
    for (const auto& [worker, steps] : told_) {
      order(worker, {.local_steps = steps, .weight = mean / steps});
    }
    decide({.at = now,
            .quantity = "local steps",
            .value = mean,
            .reason = fmt::format("mean of {} workers, in proportion to speed", told_.size())});
  }

  const FedNovaOptions options_;
  Duration judged_;                         // the fastest step time at the last update
  std::map<WorkerId, std::uint32_t> told_;  // a_i
  std::size_t weighed_ = 0;                 // workers in the weights as last told
};

}  // namespace

namespace rows {
Model fednova();
}

Model rows::fednova() {
  return {.info = {.name = "fednova",
                   .title = "FedNova",
                   .summary = "a barrier, local steps by speed, and each worker's mean step counts",
                   .source = "Wang et al., NeurIPS 2020"},
          .options = {option<&FedNovaOptions::local_steps>(
              "local_steps", "mini-batches per commit of the fastest worker", kAtLeastOne)},
          .gate = Model::barrier,
          .tuner = [](const Options& o, const RunFacts&) -> std::unique_ptr<Tuner> {
            return std::make_unique<FedNovaTuner>(o.of<FedNovaOptions>());
          },
          .weighs = [](const Options&) { return true; },
          .tries = {.options = {{{"local_steps", "4"}}, {{"local_steps", "16"}}}, .rates = {1, 2}},
          .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
