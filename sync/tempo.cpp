#include "sync/tempo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "sync/immediate_gate.hpp"
#include "sync/keeping_gate.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

constexpr double kGlobalMin = 1.0 / 32;
constexpr double kGlobalMax = 4;
constexpr double kFarthest = 0.5;    // of the way to where its worker is, by one commit
constexpr double kGlobalGain = 0.8;  // of ln k, a round of all workers
// The cosine `before` aimed at where l = 1, below 0. What is known of overlapped commits is one
// round older, and shows less.
constexpr double kStepBack = 0.11;
constexpr double kStepBackWaited = 0.18;
constexpr double kLocalMin = 1.0 / 32;  // of what a rise of the loss leaves of l's bound
constexpr double kLocalCut = 0.5;       // of l when the loss rose
constexpr double kLocalGain = 2.5;      // of ln l
constexpr double kShared = 1.5;         // times `during`: what of `own` is everybody's
constexpr double kDriftAllowed = 0.15;  // of a worker that takes no local steps
constexpr std::uint64_t kFirst = 2;     // commits whose cosines are not all known
constexpr double kLogEwma = 0.1;
constexpr const char* kBack = "; back to the parameters of the last low";

bool moved(double from, double to, double by) {
  return std::abs(std::log(to / from)) >= by;
}

}  // namespace

TempoTuner::TempoTuner(const TempoOptions& options, std::uint64_t parameter_bytes)
    : options_(options),
      parameter_bytes_(static_cast<double>(parameter_bytes)),
      cap_(kGlobalMin, kGlobalMax) {}

Duration TempoTuner::spacing() const {
  if (!has_budget()) return {};
  const auto workers = static_cast<double>(members().size());
  return Duration::from_seconds(2 * workers * parameter_bytes_ / options_.bytes_per_second);
}

Directive TempoTuner::directive() const {
  Directive directive;
  directive.period = spacing();
  directive.weight = rates_.global;
  directive.local_rate = rates_.local;
  return directive;
}

// Short local steps first: they cost little where long ones are better, and much is lost where not.
void TempoTuner::on_start(Instant now) {
  started_ = true;
  rates_.local = 0;
  clamp();
  tell(now, "begin at the least");
}

void TempoTuner::on_join(Instant now, WorkerId worker) {
  QueuedTuner::on_join(now, worker);
  if (!started_) return;
  if (has_budget()) {
    order_all(directive());
  } else {
    order(worker, directive());
  }
}

void TempoTuner::on_leave(Instant now, WorkerId worker) {
  QueuedTuner::on_leave(now, worker);
  if (has_budget()) order_all(directive());
}

void TempoTuner::clamp() {
  const auto workers = static_cast<double>(std::max<std::size_t>(members().size(), 1));
  const double most = std::min(cap_.max(), std::max(1.0, kFarthest * workers));
  rates_.global = std::clamp(rates_.global, kGlobalMin, most);
  const double least = std::min(1.0, rates_.global) / workers;
  rates_.local = std::clamp(rates_.local, least, std::max(least, local_max_));
}

void TempoTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  const std::uint64_t known = members().at(worker).commits;
  QueuedTuner::on_progress(now, worker, progress);
  if (progress.commits <= known) return;
  commits_ += progress.commits - known;
  if (progress.commits <= kFirst) {
    on_first_commits(progress);
  } else {
    follow(progress);
  }
  announce(now);
}

// A commit that takes n steps holds the gradients of n: together they may go sqrt(n) as far as one,
// until the cosines say what holds. One that is not waited for is made beside another: two at
// least.
void TempoTuner::on_first_commits(const WorkerProgress& progress) {
  if (progress.overhead <= Duration{} || are_quick(progress.overhead, progress.step_time)) return;
  const double steps = std::max(2.0, progress.overhead.seconds() / progress.step_time.seconds());
  rates_.global = std::min(rates_.global, 1 / std::sqrt(steps));
  clamp();
}

void TempoTuner::follow(const WorkerProgress& progress) {
  const Alignment& a = progress.alignment;
  if (a.own == 0 && a.during == 0 && a.before == 0) return;  // nothing was measured
  const auto workers = static_cast<double>(members().size());
  const double step_back =
      are_quick(progress.overhead, progress.step_time) ? kStepBackWaited : kStepBack;
  rates_.global *=
      std::exp(kGlobalGain / workers * (a.before + step_back * std::sqrt(rates_.local)));
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
  // One a round of commits, or it would stall where they are rare; and the first parameters.
  if (commits_ < members().size() && cap_.lowest_loss() > 0) return;
  commits_ = 0;
  const double before = rates_.global;
  const double bound = cap_.max();
  switch (cap_.on_evaluation(point.loss, before)) {
    case RateCap::Verdict::Fine:
      return;
    case RateCap::Verdict::NewLow:
      local_max_ = std::min(1.0, local_max_ * cap_.max() / bound);
      risen_ = false;
      order_shards(kKeepOrder);
      return;
    case RateCap::Verdict::Stalled:
      clamp();
      if (rates_.global < before || risen_)
        tell(now, fmt::format("the loss stalls, at {:.4g}: not above {:.3g}/m until it falls{}",
                              point.loss, cap_.max(), risen_ ? kBack : ""));
      if (std::exchange(risen_, false)) order_shards(kRestoreOrder);
      return;
    case RateCap::Verdict::Rose:
      local_max_ = std::max(kLocalMin, kLocalCut * rates_.local);
      rates_ = {before / 2, 0};
      clamp();
      tell(now, fmt::format("the loss is {:.4g}, the lowest was {:.4g}: not above {:.3g}/m until "
                            "it falls{}",
                            point.loss, cap_.lowest_loss(), cap_.max(), risen_ ? kBack : ""));
      if (std::exchange(risen_, !risen_)) order_shards(kRestoreOrder);
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

namespace rows {
Model tempo();
}

Model rows::tempo() {
  return {
      .info = {.name = "tempo",
               .title = "Tempo",
               .summary = "trains on while it commits, at rates felt from how updates lie",
               .source = "Rubato"},
      .options = {option<&TempoOptions::bytes_per_second>(
          "bytes_per_second", "byte budget of the whole cluster, 0 is none", Limits::at_least(0))},
      .rule = [](const Options&) -> std::unique_ptr<CommitRule> {
        return std::make_unique<CommitSpacing>();
      },
      .gate = [](const Options&) -> std::unique_ptr<Gate> {
        return std::make_unique<KeepingGate<ImmediateGate>>();
      },
      .tuner = [](const Options& o, const RunFacts& f) -> std::unique_ptr<Tuner> {
        return std::make_unique<TempoTuner>(o.of<TempoOptions>(), f.parameter_bytes);
      },
      .overlap = [](const Options&) { return Overlap::UnlessQuick; },
      .weighs = [](const Options&) { return true; },
      .steers_rate = true,
      .measures_alignment = true,
      .averages = true,
      .tries = {.options = {{}}}};
}

}  // namespace rubato::sync
