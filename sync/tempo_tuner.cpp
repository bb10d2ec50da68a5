#include "sync/tempo_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace rubato::sync {
namespace {

constexpr double kGlobalMin = 1.0 / 32;
constexpr double kStepBack = -0.11;     // the cosine `before` aimed at where l = 1
constexpr double kGlobalGain = 0.8;     // of ln k, a round of all workers
constexpr double kLocalGain = 1.2;      // of ln l
constexpr double kDriftAllowed = 0.25;  // own - during of a worker that takes no local steps
constexpr double kLossRise = 2;
constexpr std::uint64_t kCommitsBefore = 3;  // from then on all three cosines are known
constexpr int kSettling = 5;                 // evaluations until a lower rate shows
constexpr double kLogEwma = 0.1;

bool moved(double from, double to, double by) {
  return std::abs(std::log(to / from)) >= by;
}

}  // namespace

Directive TempoTuner::directive() const {
  Directive directive;
  directive.weight = rates_.global / rates_.local;
  directive.local_rate = rates_.local;
  return directive;
}

// Short local steps first: they cost little where long ones are better, and much is lost where not.
void TempoTuner::on_start(Instant now) {
  rates_.local = 0;
  clamp();
  tell(now, "begin at the least");
}

void TempoTuner::on_join(Instant now, WorkerId worker) {
  QueuedTuner::on_join(now, worker);
  commits_[worker] = 0;
  if (directive() != Directive{}) order(worker, directive());
}

void TempoTuner::on_leave(Instant now, WorkerId worker) {
  QueuedTuner::on_leave(now, worker);
  commits_.erase(worker);
}

void TempoTuner::clamp() {
  const auto workers = static_cast<double>(std::max<std::size_t>(members().size(), 1));
  rates_.global = std::clamp(rates_.global, kGlobalMin, global_max_);
  rates_.local = std::clamp(rates_.local, std::min(1.0, rates_.global) / workers, 1.0);
}

void TempoTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  QueuedTuner::on_progress(now, worker, progress);
  std::uint64_t& known = commits_.at(worker);
  if (progress.commits <= known) return;
  known = progress.commits;
  if (known < kCommitsBefore) return;
  const Alignment& a = progress.alignment;
  const auto workers = static_cast<double>(members().size());
  rates_.global *=
      std::exp(kGlobalGain / workers * (a.before - kStepBack * std::sqrt(rates_.local)));
  const double drift = a.own - a.during - kDriftAllowed * (1 - rates_.local);
  rates_.local *= std::exp(-kLocalGain / workers * drift);
  clamp();
  seen_.own += kLogEwma * (a.own - seen_.own);
  seen_.during += kLogEwma * (a.during - seen_.during);
  seen_.before += kLogEwma * (a.before - seen_.before);
  announce(now);
}

// A loss that doubled means a rate that does not hold, whatever the cosines say.
void TempoTuner::on_evaluation(Instant now, const EvaluationPoint& point) {
  if (lowest_loss_ == 0 && !(point.loss > 0)) return;
  if (lowest_loss_ == 0 || point.loss < lowest_loss_) lowest_loss_ = point.loss;
  if (settling_ > 0) --settling_;
  if (settling_ > 0 || point.loss <= kLossRise * lowest_loss_) return;
  settling_ = kSettling;
  const double before = rates_.global;
  global_max_ = std::max(kGlobalMin, before / 2);
  rates_.local = 0;
  clamp();
  if (rates_.global == before && rates_.local == ordered_.local) return;
  tell(now, fmt::format("the loss is {:.4g}, the lowest was {:.4g}: never again above {:.3g}/m",
                        point.loss, lowest_loss_, global_max_));
}

void TempoTuner::announce(Instant now) {
  constexpr double kOrderAfter = 0.05, kLogAfter = 0.33;
  if (moved(logged_.global, rates_.global, kLogAfter) ||
      moved(logged_.local, rates_.local, kLogAfter)) {
    tell(now, fmt::format("updates lie at {:+.2f} to the way before them, {:+.2f} to the way "
                          "meanwhile, {:+.2f} to each other",
                          seen_.before, seen_.during, seen_.own));
  } else if (moved(ordered_.global, rates_.global, kOrderAfter) ||
             moved(ordered_.local, rates_.local, kOrderAfter)) {
    ordered_ = rates_;
    order_all(directive());
  }
}

void TempoTuner::tell(Instant now, std::string reason) {
  decide({.at = now,
          .quantity = "global rate x m",
          .value = rates_.global,
          .reason = fmt::format("local rate {:.3f}: {}", rates_.local, reason)});
  ordered_ = logged_ = rates_;
  order_all(directive());
}

}  // namespace rubato::sync
