#include "sync/adsp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {

// --- commit rule ---------------------------------------------------------------------------------

AdspRule::AdspRule(Duration check_period) : check_period_(check_period) {
  RUBATO_CHECK(check_period > Duration{}, "the check period is validated before");
}

void AdspRule::on_start(Instant now, bool) {
  advance(now);
  if (!std::exchange(started_, true)) last_reply_ = now;
  in_flight_ = false;  // a commit under way is given up
}

bool AdspRule::on_step_end(Instant now) {
  advance(now);
  return !in_flight_ && now >= due();
}

void AdspRule::on_commit_sent(Instant now) {
  advance(now);
  RUBATO_CHECK(!in_flight_, "one commit of a worker is outstanding");
  lateness_ = std::clamp(now - due(), Duration{}, interval());
  in_flight_ = true;
}

void AdspRule::on_reply(Instant now, Duration overhead) {
  advance(now);
  RUBATO_CHECK(in_flight_, "a reply answers a commit");
  overhead_ = (overhead_ + overhead) * 0.5;
  last_reply_ = now;
  in_flight_ = false;
}

void AdspRule::on_directive(Instant now, const Directive& directive) {
  advance(now);
  RUBATO_CHECK(is_commit_rate(directive.commit_rate),
               "a worker commits at least once a check period");
  commit_rate_ = directive.commit_rate;
  lateness_ = std::min(lateness_, interval());
}

Duration AdspRule::interval() const {
  return check_period_ * (1.0 / commit_rate_);
}

Instant AdspRule::due() const {
  return last_reply_ + (interval() - overhead_ - lateness_);
}

void AdspRule::advance(Instant now) {
  RUBATO_CHECK(now >= now_, "time never decreases");
  now_ = now;
}

// --- tuner ---------------------------------------------------------------------------------------

namespace {

constexpr int kProbeRate = 4;              // until the commit overhead is known
constexpr std::size_t kWindowSamples = 6;  // at least, for the robust fit
constexpr std::size_t kWindowSamplesMax = 8192;
constexpr double kLossJump = 1.3;    // from one checkpoint to the next: search again
constexpr double kRateMax = 10'000;  // where nothing is known to limit the rate

}  // namespace

AdspTuner::AdspTuner(const AdspOptions& options, std::uint64_t parameter_bytes)
    : options_(options), parameter_bytes_(parameter_bytes) {}

void AdspTuner::on_start(Instant now) {
  advance(now);
  RUBATO_CHECK(!started_, "a run starts once");
  started_ = now;
  if (options_.fixed_rate) {
    set_rate(now, *options_.fixed_rate);
    explain(now, fmt::format("fixed rate {}", rate_));
  } else {
    begin_epoch(now);
  }
}

void AdspTuner::on_join(Instant now, WorkerId worker) {
  advance(now);
  const bool first = members_.empty();
  const Member member{
      .commits_at_join = slowest(), .progress = {}, .ordered = 0, .mark = slowest()};
  RUBATO_CHECK(members_.emplace(worker, member).second, "a worker joins once");
  count(member);
  if (!started_) return;
  if (first) {
    set_rate(now, rate_);  // counts start again from 0
  } else {
    send_order(worker, members_.at(worker), rate_max());
  }
}

void AdspTuner::on_leave(Instant now, WorkerId worker) {
  advance(now);
  const auto member = members_.find(worker);
  RUBATO_CHECK(member != members_.end(), "only a member leaves");
  uncount(member->second);
  members_.erase(member);
}

void AdspTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  advance(now);
  const auto member = members_.find(worker);
  RUBATO_CHECK(member != members_.end(), "only members report");
  uncount(member->second);
  member->second.progress = progress;
  count(member->second);
  if (!all_committed()) return;
  if (stage_ == Stage::Probe) {
    begin_search(now, start_rate(), fmt::format("a commit costs {:.3f} s", mean_overhead()));
  } else if (stage_ == Stage::Settle) {
    open_window(now);
  }
}

void AdspTuner::on_evaluation(Instant now, const EvaluationPoint& point) {
  advance(now);
  if (!started_ || !std::isfinite(point.loss) || point.loss <= 0) return;
  const LossSample sample{.seconds = (point.at - *started_).seconds(), .loss = point.loss};
  if (last_ && sample.seconds <= last_->seconds) return;  // an old one, late
  last_ = sample;
  if (stage_ != Stage::Measure || members_.empty() || point.at < window_opened_) return;
  // A worker that does not commit keeps it open.
  if (window_.size() == kWindowSamplesMax) window_.erase(window_.begin());
  window_.push_back(sample);
  if (window_full()) close_window(now);
}

void AdspTuner::on_wakeup(Instant now) {
  advance(now);
  if (!started_ || now < checkpoint_) return;
  while (checkpoint_ <= now) {
    target_ += static_cast<std::uint64_t>(std::min(rate_, rate_max()));
    checkpoint_ = checkpoint_ + options_.check_period;
  }
  if (!begin_due_search(now)) send_orders();
}

bool AdspTuner::begin_due_search(Instant now) {
  if (options_.fixed_rate || stage_ != Stage::Hold) return false;
  if (now >= epoch_end_) {
    begin_epoch(now);
    return true;
  }
  if (!last_) return false;
  const auto before = std::exchange(last_checkpoint_loss_, last_->loss);
  if (!before || last_->loss < kLossJump * *before) return false;
  begin_search(now, options_.start == SearchStart::Paper ? 1 : rate_,
               fmt::format("loss {:.4f} is {:.0f} % above that of the checkpoint before",
                           last_->loss, 100 * (last_->loss / *before - 1)));
  return true;
}

std::optional<Instant> AdspTuner::poll_wakeup() const {
  if (!started_) return std::nullopt;
  return checkpoint_;
}

void AdspTuner::advance(Instant now) {
  RUBATO_CHECK(now >= now_, "time never decreases");
  now_ = now;
}

void AdspTuner::begin_epoch(Instant now) {
  epoch_end_ = now + options_.epoch;
  if (options_.start == SearchStart::Paper) {
    begin_search(now, 1, "a new epoch");
  } else if (searched_) {
    const int first = options_.reward == RewardKind::Paper ? std::max(1, rate_ - 1) : rate_;
    begin_search(now, first, "a new epoch");
  } else if (options_.reward == RewardKind::Paper) {
    begin_search(now, 1, "the first epoch");
  } else {
    set_rate(now, std::min(kProbeRate, rate_max()));
    enter(Stage::Probe);
    explain(now, "until every worker has committed once");
  }
}

void AdspTuner::begin_search(Instant now, int rate, const std::string& reason) {
  const int first = std::clamp(rate, 1, rate_max());
  if (options_.reward == RewardKind::Paper) {
    search_.emplace(PaperSearch(first));
  } else {
    search_.emplace(RobustSearch(first));
  }
  begin_window(now, first);
  explain(now, fmt::format("{}: search from R={}", reason, rate_));
}

void AdspTuner::begin_window(Instant now, int rate) {
  set_rate(now, rate);
  window_.clear();
  if (options_.reward == RewardKind::Paper) {
    if (last_) window_.push_back(*last_);
    open_window(now);
  } else {
    enter(Stage::Settle);
  }
}

void AdspTuner::open_window(Instant now) {
  window_opened_ = now;
  enter(Stage::Measure);
}

bool AdspTuner::window_full() const {
  const Duration length = now_ - window_opened_;
  if (options_.reward == RewardKind::Paper) {
    return window_.size() >= 3 && length >= options_.check_period;
  }
  Duration interval = options_.check_period * (1.0 / rate_);
  for (const auto& [id, member] : members_) interval = std::max(interval, member.cycle());
  return window_.size() >= kWindowSamples && length >= options_.check_period * 0.5 &&
         length >= interval * 2 && all_committed();
}

void AdspTuner::close_window(Instant now) {
  const auto judge = [&](auto& search) {
    std::string reason = search.on_window(window_, rate_max());
    if (search.done()) {
      set_rate(now, search.rate());
      enter(Stage::Hold);
      searched_ = true;
    } else {
      begin_window(now, search.rate());
    }
    explain(now, std::move(reason));
  };
  std::visit(judge, *search_);
}

void AdspTuner::enter(Stage stage) {
  stage_ = stage;
  for (auto& [id, member] : members_) member.mark = member.commits();
  behind_ = members_.size();
}

void AdspTuner::count(const Member& member) {
  ++counts_[member.commits()];
  if (member.commits() <= member.mark) ++behind_;
}

void AdspTuner::uncount(const Member& member) {
  const auto entry = counts_.find(member.commits());
  if (--entry->second == 0) counts_.erase(entry);
  if (member.commits() <= member.mark) --behind_;
}

void AdspTuner::set_rate(Instant now, int rate) {
  rate_ = rate;
  target_ = fastest() + static_cast<std::uint64_t>(rate);
  checkpoint_ = now + options_.check_period;
  last_checkpoint_loss_.reset();
  send_orders();
}

void AdspTuner::send_orders() {
  const int cap = rate_max();
  for (auto& [id, member] : members_) send_order(id, member, cap);
}

void AdspTuner::send_order(WorkerId worker, Member& member, int cap) {
  const double missing =
      static_cast<double>(target_) - static_cast<double>(member.commits());  // C_target - c_i
  const double commit_rate = std::clamp(missing, 1.0, static_cast<double>(cap));
  if (commit_rate == member.ordered) return;
  member.ordered = commit_rate;
  order(worker, {.commit_rate = commit_rate});
}

void AdspTuner::explain(Instant now, std::string reason) {
  decide({.at = now, .value = static_cast<double>(rate_), .reason = std::move(reason)});
}

int AdspTuner::rate_max() const {
  double limit = kRateMax;
  const double period = options_.check_period.seconds();
  for (const auto& [id, member] : members_) {
    const double cycle = member.cycle().seconds();
    if (cycle > 0) limit = std::min(limit, std::floor(period / cycle));
  }
  if (options_.bytes_per_second > 0 && !members_.empty() && parameter_bytes_ > 0) {
    const double round_bytes =  // every worker commits and is answered once
        2.0 * static_cast<double>(members_.size()) * static_cast<double>(parameter_bytes_);
    limit = std::min(limit, std::floor(options_.bytes_per_second * period / round_bytes));
  }
  return std::max(1, static_cast<int>(limit));
}

// Commits cost R O / Gamma of the time, and what is learned waits Gamma / 2R for the next one. The
// two are in balance over two check periods where R O / Gamma = (Gamma / 2R) / 2 Gamma. A commit
// that overlaps training costs nothing.
int AdspTuner::start_rate() const {
  const double overhead = mean_overhead();
  if (options_.overlap || overhead <= 0) return rate_max();
  const double balanced = 0.5 * std::sqrt(options_.check_period.seconds() / overhead);
  return std::clamp(static_cast<int>(std::lround(balanced)), 1, rate_max());
}

double AdspTuner::mean_overhead() const {
  double sum = 0;
  for (const auto& [id, member] : members_) {
    // O_i starts from 0 and moves half of the way with every commit.
    const double arrived = 1 - std::exp2(-static_cast<double>(member.progress.commits));
    sum += member.progress.overhead.seconds() / arrived;
  }
  return sum / static_cast<double>(members_.size());
}

// --- with mini-batches in proportion to speed ----------------------------------------------------

BatchedAdsp::BatchedAdsp(const AdspOptions& options, std::uint64_t parameter_bytes, int batch)
    : rates_(options, parameter_bytes), batches_(kMostBatches, batch) {}

void BatchedAdsp::on_start(Instant now) {
  rates_.on_start(now);
  batches_.on_start(now);
}

void BatchedAdsp::on_join(Instant now, WorkerId worker) {
  told_[worker] = {};
  rates_.on_join(now, worker);
  batches_.on_join(now, worker);
}

void BatchedAdsp::on_leave(Instant now, WorkerId worker) {
  told_.erase(worker);
  rates_.on_leave(now, worker);
  batches_.on_leave(now, worker);
}

void BatchedAdsp::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  rates_.on_progress(now, worker, progress);
  batches_.on_progress(now, worker, progress);
}

void BatchedAdsp::on_evaluation(Instant now, const EvaluationPoint& point) {
  rates_.on_evaluation(now, point);
}

void BatchedAdsp::on_wakeup(Instant now) {
  rates_.on_wakeup(now);
}

std::optional<Tuner::Order> BatchedAdsp::poll_order() {
  if (const auto rate = rates_.poll_order()) {
    const auto told = told_.find(rate->worker);
    if (told == told_.end()) return rate;  // it has left since; nobody is told
    told->second.commit_rate = rate->directive.commit_rate;
    return Order{rate->worker, told->second};
  }
  auto share = batches_.poll_order();
  if (!share) return std::nullopt;
  const auto told = told_.find(share->worker);
  if (told == told_.end()) return share;
  told->second.weight = share->directive.weight;
  told->second.batch = share->directive.batch;
  return Order{share->worker, told->second};
}

std::optional<Decision> BatchedAdsp::poll_decision() {
  if (auto decision = rates_.poll_decision()) return decision;
  return batches_.poll_decision();
}

// --- row -----------------------------------------------------------------------------------------

namespace rows {
Model adsp();
}

Model rows::adsp() {
  OptionRow check_period = option<&AdspOptions::check_period>(
      "check_period_seconds", "every worker commits equally often in one", Limits::seconds());
  check_period.absent = "60, or 1/20 of a run that is shorter than 20 min";
  return {
      .info = {.name = "adsp",
               .title = "ADSP",
               .summary = "equal commit counts at a rate searched online, nobody waits",
               .source = "Hu, Wang, Wu, AAAI 2020",
               .compared = true,
               .trained = true},
      .options = {check_period,
                  option<&AdspOptions::epoch>("epoch_seconds", "a new search begins every epoch",
                                              Limits::seconds()),
                  choice<&AdspOptions::reward>("reward", "how two rates are compared",
                                               "robust | paper"),
                  choice<&AdspOptions::start>("start", "where a search begins", "warm | paper"),
                  option<&AdspOptions::fixed_rate>(
                      "fixed_rate", "commits a check period, instead of a search", kAtLeastOne),
                  option<&AdspOptions::overlap>("overlap", "train on while a commit is in flight"),
                  option<&AdspOptions::bytes_per_second>(
                      "bytes_per_second", "byte budget of the whole cluster, 0 is none",
                      Limits::at_least(0)),
                  choice<&AdspOptions::batches>(
                      "batches",
                      "mini-batches of all workers, or in proportion to speed as BatchTune's",
                      "equal | speed")},
      .rule = [](const Options& o) -> std::unique_ptr<CommitRule> {
        return std::make_unique<AdspRule>(o.of<AdspOptions>().check_period);
      },
      .tuner = [](const Options& o, const RunFacts& f) -> std::unique_ptr<Tuner> {
        const auto& own = o.of<AdspOptions>();
        if (own.batches == Batches::Speed)
          return std::make_unique<BatchedAdsp>(own, f.parameter_bytes, f.batch);
        return std::make_unique<AdspTuner>(own, f.parameter_bytes);
      },
      .overlap =
          [](const Options& o) {
            return o.of<AdspOptions>().overlap ? Overlap::Always : Overlap::WhenAway;
          },
      .weighs = [](const Options& o) { return o.of<AdspOptions>().batches == Batches::Speed; },
      .batch_max =
          [](const Options& o, int batch) {
            const bool tuned = o.of<AdspOptions>().batches == Batches::Speed;
            return largest_batch(tuned ? kMostBatches : 1, batch);
          },
      .tries = {.options = {{}, {{"overlap", "true"}}}, .rates = {1, 2, 4}},
      .lack = [](const Options& o, std::uint64_t) -> std::optional<Lack> {
        if (o.of<AdspOptions>().fixed_rate) return std::nullopt;
        return Lack{"sync.adsp.fixed_rate", "loss to search a rate by; give the rate"};
      },
      .spacing_key = "check_period_seconds",
      .derive =
          [](Options& o, const ConfigTable& own, Duration run) {
            if (own.has("check_period_seconds")) return;
            auto& period = o.of<AdspOptions>().check_period;
            period = std::clamp(run * (1 / kCheckPeriodsMin), Duration{1}, period);
          },
      .check =
          [](const Options& o, const ConfigTable& own) {
            const auto& adsp = o.of<AdspOptions>();
            if (adsp.epoch < adsp.check_period)
              own.problem("epoch_seconds",
                          fmt::format("must be at least check_period_seconds ({:.6g})",
                                      adsp.check_period.seconds()));
          }};
}

}  // namespace rubato::sync
