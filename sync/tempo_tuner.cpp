#include "sync/tempo_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rubato::sync {
namespace {

constexpr double kGlobalMin = 1.0 / 32;
constexpr double kGlobalMax = 8;
constexpr double kFarthest = 0.5;       // of the way to where its worker is, by one commit
constexpr double kGlobalGain = 0.5;     // of ln k, a round of all workers
constexpr double kStepBack = 0.11;      // the cosine `before` aimed at where l = 1, below 0
constexpr double kLocalGain = 2.5;      // of ln l
constexpr double kShared = 1.5;         // times `during`: what of `own` is everybody's
constexpr double kDriftAllowed = 0.15;  // of a worker that takes no local steps
constexpr std::uint64_t kFirst = 2;     // commits whose cosines are not all known
constexpr double kLogEwma = 0.1;

bool moved(double from, double to, double by) {
  return std::abs(std::log(to / from)) >= by;
}

}  // namespace

TempoTuner::TempoTuner() : cap_(kGlobalMin, kGlobalMax) {}

Directive TempoTuner::directive() const {
  Directive directive;
  directive.weight = rates_.global;
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
  if (directive() != Directive{}) order(worker, directive());
}

void TempoTuner::clamp() {
  const auto workers = static_cast<double>(std::max<std::size_t>(members().size(), 1));
  const double most = std::min(cap_.max(), std::max(1.0, kFarthest * workers));
  rates_.global = std::clamp(rates_.global, kGlobalMin, most);
  rates_.local = std::clamp(rates_.local, std::min(1.0, rates_.global) / workers, 1.0);
}

void TempoTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  const std::uint64_t known = members().at(worker).commits;
  QueuedTuner::on_progress(now, worker, progress);
  if (progress.commits <= known) return;
  if (progress.commits <= kFirst) {
    on_first_commits(progress);
  } else {
    follow(progress.alignment);
  }
  announce(now);
}

// A commit that takes n steps holds the gradients of n: together they may go sqrt(n) as far as one,
// until the cosines say what holds.
void TempoTuner::on_first_commits(const WorkerProgress& progress) {
  if (progress.overhead <= progress.step_time) return;
  rates_.global = std::min(rates_.global,
                           std::sqrt(progress.step_time.seconds() / progress.overhead.seconds()));
  clamp();
}

void TempoTuner::follow(const Alignment& a) {
  if (a.own == 0 && a.during == 0 && a.before == 0) return;  // nothing was measured
  const auto workers = static_cast<double>(members().size());
  rates_.global *=
      std::exp(kGlobalGain / workers * (a.before + kStepBack * std::sqrt(rates_.local)));
  const double drift =
      a.own - kShared * std::max(a.during, 0.0) - kDriftAllowed * (1 - rates_.local);
  rates_.local *= std::exp(-kLocalGain / workers * drift);
  clamp();
  seen_.own += kLogEwma * (a.own - seen_.own);
  seen_.during += kLogEwma * (a.during - seen_.during);
  seen_.before += kLogEwma * (a.before - seen_.before);
}

// Whatever the cosines say, a rate at which the loss doubled or stalled was too high.
void TempoTuner::on_evaluation(Instant now, const EvaluationPoint& point) {
  const double before = rates_.global;
  switch (cap_.on_evaluation(point.loss, before)) {
    case RateCap::Verdict::Fine:
      return;
    case RateCap::Verdict::Stalled:
      clamp();
      if (rates_.global < before)
        tell(now, fmt::format("the loss stalls, at {:.4g}: not above {:.3g}/m until it falls",
                              point.loss, cap_.max()));
      return;
    case RateCap::Verdict::Rose:
      rates_ = {before / 2, 0};
      clamp();
      tell(now, fmt::format("the loss is {:.4g}, the lowest was {:.4g}: not above {:.3g}/m until "
                            "it falls",
                            point.loss, cap_.lowest_loss(), cap_.max()));
      return;
  }
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

void TempoTuner::tell(Instant now, const std::string& reason) {
  decide({.at = now,
          .quantity = "global rate x m",
          .value = rates_.global,
          .reason = fmt::format("local rate {:.3f}: {}", rates_.local, reason)});
  ordered_ = logged_ = rates_;
  order_all(directive());
}

}  // namespace rubato::sync
