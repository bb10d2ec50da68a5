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
constexpr double kAlwaysGlobal = 2;  // a k that is never too far
// Of h, a round of commits. A gap below kQuiet shows no noise, one above kNoisy too much of it.
constexpr double kQuiet = 0.04, kNoisy = 0.12;
// The same for data that differ. Workers pull the parameters to and fro; the average stands still.
constexpr double kQuietWhereUnlike = 0.12, kNoisyWhereUnlike = 0.3;
constexpr double kRaise = 1.2, kRaiseInNoise = 1.05, kLower = 0.75;
constexpr double kRaiseAtStart = 3;  // until h is 1, or shows noise
constexpr double kLevelMin = 0.7;   // that a gap can leave of h of many; a rise of the loss goes on
constexpr double kClear = 0.25;     // of either cosine: updates are more than noise
constexpr double kOwnClear = 0.15;  // of `own`, the same, where updates are of one step
constexpr double kLong = 0.85;      // mean part of h below which commits are long
constexpr double kOfOverhead = 0.3;  // h falls by sqrt(1 + kOfOverhead O/t)
// Steps that a commit may take to be waited for.
constexpr double kQuickWhereUnlike = 1.5, kQuickWhereFarApart = 30;
constexpr double kLocalFirst = 0.3;
constexpr double kLocalWhereLong = 0.2;  // least l where commits are long
constexpr double kLocalMin = 1.0 / 32;   // of what a rise of the loss leaves of l's bound
constexpr double kLocalCut = 0.5;        // of l when the loss rose
constexpr double kLocalEase = 0.7;       // of l when it stalled
constexpr double kLocalGain = 5;         // of ln l, a round
constexpr double kShared = 1.5;          // times `during`: what of `own` is everybody's
constexpr double kDriftAllowed = 0.15;   // of a worker that takes no local steps
constexpr double kAlike = -0.25;         // agreement below which data are alike, until half of it
constexpr double kFarApart = 0.25;       // agreement above which they differ much, until alike
constexpr double kMeanGain = 0.5;        // of the means over reports, a round
constexpr double kMeanGainMax = 0.1;     // of a report in them: few reports are noise
constexpr double kOwnGain = 0.2;         // of a worker's mean over its reports
constexpr double kMoreAlike = 0.05;      // the difference of slow and quick at which e rests
constexpr double kEvenGain = 2;          // of e, a round
constexpr double kEvenMax = 0.5;
constexpr double kPartMax = 4;       // that a step counts as, however quick some worker says it is
constexpr std::uint64_t kFirst = 2;  // commits whose cosines are not all known
// Commits of m workers that do not wait for each other act as a momentum of 1 - 1/m (Mitliagkas et
// al., Allerton 2016). Few workers have little of it, so their servers add some.
constexpr double kMomentumOfFew = 0.7;
// A commit has the noise of one worker and the weight k/m. So h of few begins lower, too.
constexpr int kFew = 3, kMany = 8;
constexpr const char* kBack = "; back to the parameters of the last low";

}  // namespace

TempoTuner::TempoTuner(const TempoOptions& options, std::uint64_t parameter_bytes, double momentum)
    : options_(options),
      parameter_bytes_(static_cast<double>(parameter_bytes)),
      momentum_(momentum),
      cap_(kGlobalMin, kGlobalMax) {}

Duration TempoTuner::spacing() const {
  if (!has_budget()) return {};
  return Duration::from_seconds(2 * workers() * parameter_bytes_ / options_.bytes_per_second);
}

double TempoTuner::farthest() const {
  return std::max(kAlwaysGlobal, kFarthest * workers());
}

double TempoTuner::pace(const WorkerProgress& progress) const {
  if (progress.step_time <= Duration{}) return 0;
  const bool waits = are_quick(progress.overhead, progress.step_time, rates_.quick);
  return 1 / (progress.step_time + (waits ? progress.overhead : Duration{})).seconds();
}

// A momentum of b makes each commit act 1/(1 - b) times.
Directive TempoTuner::directive(WorkerId worker) const {
  Directive directive;
  directive.period = spacing();
  const double steps = pace(members().at(worker));
  const double part = steps > 0 ? even_scale_ * std::pow(steps, -rates_.even) : 1;
  const double weight = rates_.global * std::min(part, kPartMax);
  directive.weight = std::min(weight, farthest()) * (1 - momentum_);
  directive.local_rate = rates_.local;
  directive.quick_steps = rates_.quick;
  return directive;
}

void TempoTuner::order_members() {
  for (const auto& [worker, progress] : members()) order(worker, directive(worker));
}

double TempoTuner::part_of_many() const {
  return std::min(1.0, workers() / kMany);
}

void TempoTuner::on_start(Instant now) {
  started_ = true;
  rates_.local = kLocalFirst;
  level_ = part_of_many();
  starts_ = level_ < 1;
  wait_within(kQuickWhereUnlike);
  set_rates();
  tell(now, "begin");
}

void TempoTuner::on_join(Instant now, WorkerId worker) {
  QueuedTuner::on_join(now, worker);
  if (!started_) return;
  if (has_budget()) {
    order_members();
  } else {
    order(worker, directive(worker));
  }
}

void TempoTuner::on_leave(Instant now, WorkerId worker) {
  count_part(members().at(worker), -1);
  own_.erase(worker);
  QueuedTuner::on_leave(now, worker);
  if (has_budget()) order_members();
}

// A commit that is not waited for holds the gradients of several steps, taken at older parameters.
void TempoTuner::count_part(const WorkerProgress& progress, int times) {
  if (progress.step_time <= Duration{} || progress.overhead <= Duration{}) return;
  timed_ += times;
  if (are_quick(progress.overhead, progress.step_time, rates_.quick)) {
    parts_ += times;
  } else {
    const double steps = progress.overhead.seconds() / progress.step_time.seconds();
    parts_ += times / std::sqrt(1 + kOfOverhead * steps);
  }
}

void TempoTuner::wait_within(double steps) {
  if (rates_.quick == steps) return;
  rates_.quick = steps;
  parts_ = timed_ = 0;
  for (const auto& [id, progress] : members()) count_part(progress, 1);
}

bool TempoTuner::has_long_commits() const {
  return timed_ > 0 && parts_ < kLong * timed_;
}

bool TempoTuner::are_clear() const {
  return std::max(std::abs(lately_.own), std::abs(lately_.during)) > kClear;
}

void TempoTuner::set_rates() {
  const double most = std::min(cap_.max(), farthest());
  rates_.global = std::clamp(timed_ > 0 ? level_ * parts_ / timed_ : level_, kGlobalMin, most);
  double least = std::min(1.0, rates_.global) / std::max(workers(), 1.0);
  if (has_long_commits()) least = std::max(least, kLocalWhereLong);
  rates_.local = std::clamp(rates_.local, least, std::max(least, local_max_));
}

void TempoTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  const WorkerProgress& last = members().at(worker);
  const std::uint64_t known = last.commits;
  count_part(last, -1);
  QueuedTuner::on_progress(now, worker, progress);
  count_part(progress, 1);
  if (progress.commits <= known) return;
  commits_ += progress.commits - known;
  if (progress.commits > kFirst) follow(worker, progress.alignment);
  set_rates();
  announce(now);
}

void TempoTuner::follow(WorkerId worker, const Alignment& a) {
  if (a == Alignment{}) return;  // nothing was measured
  double& own = own_.try_emplace(worker, a.own).first->second;
  own += kOwnGain * (a.own - own);
  const double own_way = a.own - kShared * std::max(a.during, 0.0);
  const double drift = own_way - kDriftAllowed * (1 - rates_.local);
  const double gain = std::min(kMeanGain / workers(), kMeanGainMax);
  lately_.own += gain * (a.own - lately_.own);
  lately_.during += gain * (a.during - lately_.during);
  agreement_ += gain * (own_way - agreement_);
  if (drift > 0 || are_clear()) rates_.local *= std::exp(-kLocalGain / workers() * drift);
  if (agreement_ < kAlike) {
    wait_within(kQuickSteps);
  } else if (agreement_ > kFarApart) {
    wait_within(kQuickWhereFarApart);
  } else if (agreement_ > kAlike / 2 && rates_.quick < kQuickWhereUnlike) {
    wait_within(kQuickWhereUnlike);
  }
}

// A worker asks again for what others undo. So data count for too little if the updates of slow
// workers resemble each other more than those of quick ones.
void TempoTuner::even_out() {
  double sum = 0, sum_by_pace = 0, paces = 0;
  for (const auto& [worker, own] : own_) {
    const double steps = pace(members().at(worker));
    sum += own;
    sum_by_pace += steps * own;
    paces += steps;
  }
  if (paces <= 0) return;
  const double more_alike = sum / static_cast<double>(own_.size()) - sum_by_pace / paces;
  rates_.even = std::clamp(rates_.even + kEvenGain * (more_alike - kMoreAlike), 0.0, kEvenMax);
  double all = 0, evened = 0;
  for (const auto& [worker, progress] : members()) {
    const double steps = pace(progress);
    if (steps <= 0) continue;
    all += steps;
    evened += std::pow(steps, 1 - rates_.even);
  }
  even_scale_ = all / evened;
}

double TempoTuner::rise() const {
  // The update of a long commit holds several steps, so its cosines tell progress from noise.
  const bool longs = has_long_commits();
  if (longs && !are_clear()) return kRaiseInNoise;
  // The way during a commit that is waited for holds the update itself, so `during` tells nothing.
  const bool clear = longs || std::abs(lately_.own) > kOwnClear;
  return starts_ && clear ? kRaiseAtStart : kRaise;
}

void TempoTuner::heed(Instant now, double gap, bool falls) {
  const bool unlike = agreement_ > 0;
  if (gap > (unlike ? kNoisyWhereUnlike : kNoisy)) {
    level_ = std::max(std::min(level_, kLevelMin * part_of_many()), level_ * kLower);
    starts_ = false;
  } else if (falls && gap < (unlike ? kQuietWhereUnlike : kQuiet)) {
    level_ = std::min(kGlobalMax, level_ * rise());
    starts_ = starts_ && level_ < 1;
  }
  set_rates();
  announce(now);
}

// Rates at which the loss rises or stalls are too high.
void TempoTuner::on_evaluation(Instant now, const EvaluationPoint& point) {
  // One a round of commits, or it would stall where they are rare; and the first parameters.
  if (commits_ < members().size() && cap_.lowest_loss() > 0) return;
  commits_ = 0;
  even_out();
  const bool falls = point.loss < std::exchange(last_loss_, point.loss);
  if (point.gap) {
    heed(now, *point.gap, falls);
  } else if (std::exchange(starts_, false)) {  // no gap will raise it
    level_ = 1;
    set_rates();
    announce(now);
  }
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
      local_max_ = std::max(kLocalMin, kLocalEase * rates_.local);
      set_rates();
      if (rates_.global < before || risen_)
        tell(now, fmt::format("the loss stalls, at {:.4g}: not above {:.3g}/m until it falls{}",
                              point.loss, cap_.max(), risen_ ? kBack : ""));
      if (std::exchange(risen_, false)) order_shards(kRestoreOrder);
      return;
    case RateCap::Verdict::Rose:
      local_max_ = std::max(kLocalMin, kLocalCut * rates_.local);
      level_ /= 2;
      starts_ = false;
      rates_.local = 0;
      set_rates();
      tell(now, fmt::format("the loss is {:.4g}, the lowest was {:.4g}: not above {:.3g}/m until "
                            "it falls{}",
                            point.loss, cap_.lowest_loss(), cap_.max(), risen_ ? kBack : ""));
      if (std::exchange(risen_, !risen_)) order_shards(kRestoreOrder);
      return;
  }
}

bool TempoTuner::Rates::moved(const Rates& from, double by) const {
  const auto differs = [by](double a, double b) { return std::abs(std::log(a / b)) >= by; };
  return differs(global, from.global) || differs(local, from.local) ||
         std::abs(even - from.even) >= by;
}

void TempoTuner::announce(Instant now) {
  constexpr double kOrderAfter = 0.05, kLogAfter = 0.33;
  if (rates_.moved(logged_, kLogAfter)) {
    tell(now, fmt::format("updates lie at {:+.2f} to the way meanwhile, {:+.2f} to each other",
                          lately_.during, lately_.own));
  } else if (rates_.moved(ordered_, kOrderAfter) || ordered_.quick != rates_.quick) {
    ordered_ = rates_;
    order_members();
  }
}

void TempoTuner::tell(Instant now, const std::string& reason) {
  const std::string evened =
      rates_.even > 0 ? fmt::format(", a step counts as its worker's pace^-{:.2f}", rates_.even)
                      : "";
  decide({.at = now,
          .quantity = "global rate x m",
          .value = rates_.global,
          .reason = fmt::format("local rate {:.3f}{}: {}", rates_.local, evened, reason)});
  ordered_ = logged_ = rates_;
  order_members();
}

namespace rows {
Model tempo();
}

Model rows::tempo() {
  return {
      .info = {.name = "tempo",
               .title = "Tempo",
               .summary = "trains on while it commits, at rates that it finds by itself",
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
        return std::make_unique<TempoTuner>(o.of<TempoOptions>(), f.parameter_bytes, f.momentum);
      },
      .overlap = [](const Options&) { return Overlap::UnlessQuick; },
      .weighs = [](const Options&) { return true; },
      .steers_rate = true,
      .measures_alignment = true,
      .averages = true,
      .server_momentum =
          [](int workers) {
            const auto missing = static_cast<double>(kMany - workers);
            return kMomentumOfFew * std::clamp(missing / (kMany - kFew), 0.0, 1.0);
          },
      .tries = {.options = {{}}}};
}

}  // namespace rubato::sync
