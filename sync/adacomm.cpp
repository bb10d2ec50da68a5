#include "sync/adacomm.hpp"

#include <fmt/format.h>

#include <cmath>

#include "sync/barrier.hpp"
#include "sync/keeping_gate.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {

AdacommTuner::AdacommTuner(const AdacommOptions& options)
    : options_(options),
      first_local_steps_(static_cast<std::uint32_t>(options.local_steps)),
      local_steps_(first_local_steps_) {}

void AdacommTuner::on_start(Instant now) {
  next_ = now + options_.period;
  if (!options_.search) {
    begin(now, "as given");
    return;
  }
  trial_ = 0;
  begin_trial(now);
}

void AdacommTuner::begin_trial(Instant now) {
  trial_loss_.reset();
  local_steps_ = kTrials[trial_];
  order_all({.local_steps = local_steps_});
  decide({.at = now,
          .quantity = "local steps",
          .value = static_cast<double>(local_steps_),
          .reason = "tried for one period"});
}

void AdacommTuner::end_trial(Instant now) {
  if (trial_loss_ && (!lowest_loss_ || *trial_loss_ < *lowest_loss_)) {
    lowest_loss_ = trial_loss_;
    first_local_steps_ = local_steps_;
  }
  set_phase({.number = phase().number + kRestoreOrder});
  ++trial_;
  if (searching()) {
    begin_trial(now);
    return;
  }
  local_steps_ = first_local_steps_;
  order_all({.local_steps = local_steps_});
  begin(now, lowest_loss_ ? fmt::format("lowest loss after a period: {:.4f}", *lowest_loss_)
                          : "as given: no loss was seen");
}

void AdacommTuner::begin(Instant now, const std::string& why) {
  decide({.at = now,
          .quantity = "local steps",
          .value = static_cast<double>(local_steps_),
          .reason = why});
}

void AdacommTuner::on_join(Instant now, WorkerId worker) {
  QueuedTuner::on_join(now, worker);
  order(worker, {.local_steps = local_steps_});
}

void AdacommTuner::on_evaluation(Instant, const EvaluationPoint& point) {
  if (!std::isfinite(point.loss) || point.loss <= 0) return;
  if (searching()) {
    trial_loss_ = point.loss;
    return;
  }
  loss_sum_ += point.loss;
  ++losses_;
}

void AdacommTuner::on_wakeup(Instant now) {
  if (!next_ || now < *next_) return;
  while (*next_ <= now) next_ = *next_ + options_.period;
  if (searching()) {
    end_trial(now);
  } else if (losses_ > 0) {
    update(now);
  }
}

void AdacommTuner::update(Instant now) {
  const double loss = loss_sum_ / losses_;
  loss_sum_ = 0;
  losses_ = 0;
  if (!first_loss_) first_loss_ = loss;
  const double candidate = std::sqrt(loss / *first_loss_) * first_local_steps_;
  const bool falls = candidate < local_steps_;
  if (!falls && options_.stuck == Stuck::Keep) return;
  const double chosen = std::ceil(falls ? candidate : local_steps_ / 2.0);
  if (chosen == local_steps_) return;
  local_steps_ = static_cast<std::uint32_t>(chosen);
  order_all({.local_steps = local_steps_});
  decide({.at = now,
          .quantity = "local steps",
          .value = chosen,
          .reason = fmt::format("loss {:.4f} ({:.4f} at the start) asks for {:.1f}{}", loss,
                                *first_loss_, candidate, falls ? "" : ", halved instead")});
}

namespace rows {
Model adacomm();
}

Model rows::adacomm() {
  return {
      .info = {.name = "adacomm",
               .title = "ADACOMM",
               .summary = "a barrier every tau local steps, tau falling with the loss",
               .source = "Wang, Joshi, MLSys 2019"},
      .options = {option<&AdacommOptions::local_steps>(
                      "local_steps", "mini-batches per commit at the start", kAtLeastOne),
                  option<&AdacommOptions::period>("period_seconds", "how often they are lowered",
                                                  Limits::seconds()),
                  choice<&AdacommOptions::stuck>(
                      "stuck", "where the loss asks for no fewer: half of them, or as many",
                      "halve | keep"),
                  option<&AdacommOptions::search>(
                      "search", "try several first numbers of steps, for a period each")},
      .rule =
          [](const Options& o) { return Model::local_steps(o.of<AdacommOptions>().local_steps); },
      .gate = [](const Options&) -> std::unique_ptr<Gate> {
        return std::make_unique<KeepingGate<BarrierGate>>();
      },
      .tuner = [](const Options& o, const RunFacts&) -> std::unique_ptr<Tuner> {
        return std::make_unique<AdacommTuner>(o.of<AdacommOptions>());
      },
      .goes_back = [](const Options& o) { return o.of<AdacommOptions>().search; },
      .lack = [](const Options&, std::uint64_t) -> std::optional<Lack> {
        return Lack{"sync = \"adacomm\"", "loss to lower local_steps by; use local-sgd"};
      },
      .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
