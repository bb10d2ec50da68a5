#include "worker/worker_core.hpp"

#include <algorithm>
#include <utility>

#include "base/timers.hpp"
#include "proto/routes.hpp"
#include "sync/overhead_mean.hpp"

namespace rubato::worker {

using proto::NodeId;
using proto::Role;

namespace {

constexpr double kStepTimeEwma = 0.2;

Duration step_mean(Duration mean, Duration step) {
  return mean * (1 - kStepTimeEwma) + step * kStepTimeEwma;
}

MembershipOptions membership_options(const WorkerOptions& options) {
  return {.cluster = options.cluster,
          .incarnation = options.incarnation,
          .name = options.name,
          .settings = options.settings,
          .left_out = options.left_out,
          .parameters = options.parameters,
          .timing = options.timing,
          .servers_within = options.looks ? std::optional(options.server_timeout) : std::nullopt};
}

ExchangeOptions exchange_options(const WorkerOptions& options) {
  return {.codecs = {.up = options.up,
                     .down = options.down,
                     .auto_up = options.auto_up,
                     .auto_down = options.auto_down,
                     .parameters = options.parameters},
          .chunk_bytes = options.chunk_bytes,
          .order = options.early_forward.empty() ? ShardOrder::InTurns : ShardOrder::ByNeed,
          .elastic = options.elastic,
          .exchange = options.exchange,
          .blank = options.blank,
          .residual = options.residual,
          .averaged = options.averaged,
          .watch = {options.probe_after, options.server_timeout}};
}

}  // namespace

WorkerCore::WorkerCore(const WorkerOptions& options, std::unique_ptr<sync::CommitRule> rule)
    : rule_(std::move(rule)),
      overlap_(options.overlap),
      first_weight_(options.weight),
      batch_(options.batch),
      forward_(options.early_forward),
      alignment_(options.alignment ? std::make_unique<UpdateAlignment>(options.averaged) : nullptr),
      membership_(membership_options(options)),
      share_{.weight = options.weight},
      seeds_(options.seeds),
      exchange_(exchange_options(options)) {
  RUBATO_CHECK(rule_ != nullptr, "a worker needs a commit rule");
  RUBATO_CHECK(!options.elastic || options.weight < 1, "an elastic pull is a part of the way");
}

// --- states --------------------------------------------------------------------------------------

WorkerCore::Action WorkerCore::next_action() const {
  switch (state_) {
    case State::Joining:
    case State::Seeding:
    case State::Pulling:
    case State::Committing:
    case State::TrainingEarly:
    case State::EndingEarly:
      return Action::Wait;
    case State::LoadingFirst:
    case State::Loading:
      return Action::Load;
    case State::RestartingFirst:
    case State::Restarting:
      return Action::Restart;
    case State::Training:
    case State::Taking:
    case State::Overlapping:
    case State::Staging:
      return Action::Train;
    case State::BeginningEarly:
      return Action::TrainEarly;
    case State::CommitDue:
      return Action::Commit;
    case State::SeedDue:
      return Action::Seed;
    case State::Finished:
      return Action::Finish;
    case State::Failed:
      return Action::Fail;
  }
  return Action::Wait;
}

// The diagram of docs/architecture.md.
bool WorkerCore::may_follow(State from, State to) {
  if (from == State::Finished || from == State::Failed) return false;
  switch (to) {
    case State::Joining:  // the membership is lost
    case State::Finished:
    case State::Failed:
      return true;
    case State::SeedDue:
    case State::Pulling:
      return from == State::Joining;
    case State::Seeding:
      return from == State::SeedDue;
    case State::LoadingFirst:
    case State::RestartingFirst:
      return from == State::Pulling;
    case State::Training:
      return from == State::LoadingFirst || from == State::RestartingFirst ||
             from == State::Loading || from == State::Restarting || from == State::EndingEarly;
    case State::CommitDue:
      return from == State::Training || from == State::EndingEarly || from == State::Loading;
    case State::Taking:
    case State::Committing:
      return from == State::CommitDue;
    case State::Overlapping:
      return from == State::CommitDue || from == State::Taking || from == State::Committing;
    case State::BeginningEarly:
      return from == State::Committing;
    case State::TrainingEarly:
      return from == State::BeginningEarly;
    case State::EndingEarly:
      return from == State::TrainingEarly;
    case State::Staging:
      return from == State::Loading;
    case State::Loading:
      if (from == State::Staging) return true;
      [[fallthrough]];
    case State::Restarting:
      return from == State::Committing || from == State::BeginningEarly ||
             from == State::Overlapping;
  }
  return false;
}

void WorkerCore::move_to(State next) {
  RUBATO_CHECK(may_follow(state_, next), "the state diagram has this step");
  state_ = next;
}

void WorkerCore::fail_with(Error error) {
  failure_ = std::move(error);
  move_to(State::Failed);
}

void WorkerCore::finish(const std::string& reason) {
  if (over()) return;
  stopped_ = reason;
  move_to(State::Finished);
  if (id()) membership_.mail().send(kScheduler, take_progress());
  membership_.leave(reason);
}

void WorkerCore::on_evaluated(Instant now, Instant loaded, proto::Evaluation measured) {
  if (over() || !id()) return;
  measured.age = now - loaded;
  membership_.mail().send(kScheduler, measured);
}

// --- joining -------------------------------------------------------------------------------------

void WorkerCore::on_wakeup(Instant now) {
  if (over()) return;
  const auto heartbeat = membership_.on_wakeup(now);
  if (!heartbeat) return fail_with(heartbeat.error());
  if (*heartbeat) {
    auto& mail = membership_.mail();
    if (membership_.lonely(now))
      mail.ask(now, kScheduler, take_progress());
    else
      mail.send(kScheduler, take_progress());
  }
  if (const auto asked = exchange_.on_wakeup(now, membership_.mail()); !asked)
    return fail_with(asked.error());
  if (state_ == State::Committing && overlap_ != sync::Overlap::Never && exchange_.waits_in_vain())
    train_on(now);
}

// From now on as if the commit had overlapped with training from its beginning.
void WorkerCore::train_on(Instant now) {
  progress_.communicate += now - committed_at_;
  trained_since_ = now;
  overlapped_ = true;
  move_to(State::Overlapping);
}

std::optional<Instant> WorkerCore::poll_wakeup() const {
  if (over()) return std::nullopt;
  return earliest({membership_.poll_wakeup(), exchange_.poll_wakeup()});
}

void WorkerCore::on_message(Instant now, NodeId from, const proto::Message& message) {
  if (over() || !proto::has_route(from.role, Role::Worker, message.body)) return;
  const auto news = membership_.on_message(now, from, message, rule_runs());
  if (!news) return fail_with(news.error());
  switch (*news) {
    case Membership::News::WelcomeNewRun:
      exchange_.join_run(*membership_.run());
      [[fallthrough]];
    case Membership::News::Welcome:
      // Another number than before: the scheduler has lost the totals.
      if (const auto kept = std::exchange(number_, std::nullopt); kept && kept != id())
        forget_progress();
      return exchange_.connect(std::get<proto::Welcome>(message.body).shards,
                               membership_.round_trips());
    case Membership::News::Start:
      return on_start_told(now, std::get<proto::Start>(message.body));
    case Membership::News::Lost:
      return rejoin(now);
    case Membership::News::None:
      break;
  }
  if (from.role == Role::Scheduler) on_scheduler(now, message);
  if (from.role == Role::Server) on_server(now, from.index, message);
}

// A Start is told again until it has been obeyed.
void WorkerCore::on_start_told(Instant now, const proto::Start& start) {
  if (state_ == State::Seeding && start.seeding == 0) start_told_ = true;
  if (state_ != State::Joining) return;
  if (start.seeding > 0) {
    if (!seeds_ || start.seeding == seeding_) return;
    seeding_ = start.seeding;
    return move_to(State::SeedDue);
  }
  membership_.on_joined(now);
  exchange_.pull(now, membership_.mail());
  move_to(State::Pulling);
}

void WorkerCore::on_seed(Instant now, Update values) {
  RUBATO_CHECK(state_ == State::SeedDue, "the initial values were asked for");
  exchange_.seed(now, seeding_, std::move(values), membership_.mail());
  move_to(State::Seeding);
}

void WorkerCore::on_scheduler(Instant now, const proto::Message& message) {
  if (const auto* directive = std::get_if<sync::Directive>(&message.body)) {
    on_directive(now, *directive);
  } else if (const auto* stop = std::get_if<proto::Stop>(&message.body)) {
    on_stop(*stop);
  } else if (const auto* notice = std::get_if<proto::Notice>(&message.body)) {
    log_.push_notice(now, notice->text);
    if (notice->rejoin && id()) pull_again(now);
  }
}

void WorkerCore::on_stop(const proto::Stop& stop) {
  finish(stop.reason);
  if (stop.failed)
    failure_ =
        Error{ErrorCode::Gone, "the run ended before its stop criterion held: " + stop.reason};
}

// An outage outlasted the membership. The accumulated update stays: it counts if the shards have
// not gone back since.
void WorkerCore::rejoin(Instant now) {
  leave_shards();
  share_ = {.weight = first_weight_};
  next_share_.reset();
  told_ = {};
  forget_progress();
  number_.reset();
  membership_.rejoin(now);
  on_wakeup(now);
}

// A shard went back to a snapshot. A new incarnation lets all shards begin their books anew. A
// commit under way is given up: some shards may have applied it.
void WorkerCore::pull_again(Instant now) {
  leave_shards();
  number_ = id();
  membership_.rejoin(now, true);
  on_wakeup(now);
}

void WorkerCore::leave_shards() {
  move_to(State::Joining);
  exchange_.disconnect();
  commit_asked_ = overlapped_ = start_told_ = false;
  seeding_ = 0;  // another run counts anew
  cut_.reset();
  if (alignment_) alignment_->begin_anew();
}

void WorkerCore::on_directive(Instant now, const sync::Directive& directive) {
  if (!is_valid(directive)) return;
  told_ = {directive.local_rate, directive.quick_steps};
  if (directive.batch == 0) {
    share_.weight = directive.weight;
  } else {
    next_share_ = {directive.batch, directive.weight};
    if (!rule_runs()) take_share();
  }
  rule_->on_directive(now, directive);
}

// A commit has one weight, so all its steps have one batch.
void WorkerCore::take_share() {
  if (!next_share_) return;
  time_anew_ = next_share_->batch != share_.batch;
  share_ = *next_share_;
  next_share_.reset();
}

std::vector<std::pair<std::uint32_t, WorkerCore::Missed>> WorkerCore::silent_servers(
    Instant now) const {
  std::vector<std::pair<std::uint32_t, Missed>> all;
  if (const ServerCheck* const check = membership_.check()) {
    for (const auto server : check->silent())
      if (!check->heard(server))
        all.emplace_back(server, Missed::Joining);
      else if (check->loses_large(server, now))
        all.emplace_back(server, Missed::Large);
  } else if (shards() && !over()) {
    const bool alone = membership_.silence(now) >= kSchedulerSilence;
    const auto count = static_cast<std::uint32_t>(shards()->shards.size());
    for (std::uint32_t server = 0; server < count; ++server) {
      if (exchange_.silent_for(server, kServerSilence, now))
        all.emplace_back(server, Missed::Awaited);
      else if (alone)
        all.emplace_back(server, Missed::Alone);
    }
  }
  return all;
}

// --- replies -------------------------------------------------------------------------------------

void WorkerCore::on_server(Instant now, std::uint32_t shard, const proto::Message& message) {
  const auto complete = exchange_.on_message(now, shard, message, membership_.mail());
  if (!complete) return fail_with(complete.error());
  if (*complete) return on_reply(now);
  if (state_ == State::Committing && may_begin_early()) move_to(State::BeginningEarly);
}

void WorkerCore::on_reply(Instant now) {
  const Exchange::Reply& reply = exchange_.reply();
  const bool another_run = ground_.run && ground_.run != membership_.run();
  if (state_ == State::Seeding) {
    if (!reply.refused) {
      move_to(State::Joining);
      if (std::exchange(start_told_, false)) on_start_told(now, {});
      return;
    }
    return fail_with({ErrorCode::Refused,
                      "the servers refuse the initial values of this worker: one is not finite, or "
                      "larger than 1e15"});
  }
  const bool restart = another_run || reply.refused || reply.restores > ground_.restores;
  if (state_ == State::Pulling) {
    progress_.communicate += reply.round_trip;
    return move_to(restart ? State::RestartingFirst : State::LoadingFirst);
  }
  on_commit_answered(now, reply);
  if (state_ == State::TrainingEarly) {
    ground_.restores = reply.restores;
    if (alignment_) alignment_->on_loaded(parameters());
    move_to(State::EndingEarly);
  } else {
    move_to(restart ? State::Restarting : State::Loading);
  }
  membership_.mail().send(kScheduler, take_progress());
}

void WorkerCore::on_commit_answered(Instant now, const Exchange::Reply& reply) {
  const bool early = state_ == State::TrainingEarly;
  if (reply.refused) {
    ++refused_commits_;
    if (alignment_) alignment_->begin_anew();
  }
  progress_.overhead = sync::overhead_mean(progress_.overhead, reply.overhead());
  if (!overlapped_) {
    const Duration idle = early ? reply.round_trip - (now - early_since_) : reply.round_trip;
    const Duration waited = std::min(reply.held, idle);
    blocked_ = idle - waited;
    progress_.wait += waited;
    progress_.communicate += blocked_;
    if (!early) exchange_.on_blocked(blocked_);
  }
  ++progress_.commits;
  if (reply.dropped) {
    ++progress_.dropped_commits;
    progress_.dropped_samples += committed_samples_;
  }
  rule_->on_reply(now, reply.overhead());
}

void WorkerCore::on_loaded(Instant now) {
  const bool first = state_ == State::LoadingFirst || state_ == State::RestartingFirst;
  const bool anew = restart_due() || made_.steps == 0;
  RUBATO_CHECK(load_due(), "a load was due");
  if (restart_due()) {
    commit_asked_ = false;
    made_ = {};
  }
  ground_ = {membership_.run(), exchange_.reply().restores};
  if (alignment_) alignment_->on_loaded(parameters());
  if (!overlapped_) trained_since_ = now;
  move_to(commit_asked_ ? State::CommitDue : State::Training);
  if (first) rule_->on_start(now, anew);
}

// --- steps and commits ---------------------------------------------------------------------------

void WorkerCore::on_step(Instant now, const StepReport& report) {
  if (!rule_runs()) return;
  if (state_ == State::EndingEarly) {
    const Duration waited = now - early_since_ - report.spent;
    progress_.communicate += waited;
    blocked_ += waited;
    exchange_.on_blocked(blocked_);
    trained_since_ = now - report.spent;
  }
  ++progress_.steps;
  ++made_.steps;
  made_.rates += report.rate;
  made_.samples += share_.batch > 0 ? share_.batch : batch_;
  progress_.compute += report.spent;
  progress_.late = report.late;
  const bool first = progress_.steps == 1 || std::exchange(time_anew_, false);
  progress_.step_time = first ? report.spent : step_mean(progress_.step_time, report.spent);
  progress_.batch = share_.batch;
  loss_sum_ += report.loss_sum;
  loss_samples_ += static_cast<std::uint64_t>(report.samples);
  commit_asked_ = rule_->on_step_end(now);
  // A step that overlaps a commit may end when the reply is already here. The load comes first.
  if (trains_beside() || load_due()) return;
  if (commit_asked_) return move_to(State::CommitDue);
  if (state_ != State::Training) move_to(State::Training);
}

bool WorkerCore::overlaps_next() const {
  if (overlap_ != sync::Overlap::UnlessQuick) return overlap_ == sync::Overlap::Always;
  return !sync::are_quick(progress_.overhead, progress_.step_time, told_.quick_steps);
}

// Steps from now on belong to the commit after the next.
void WorkerCore::cut(Instant now) {
  RUBATO_CHECK(state_ == State::CommitDue, "the rule asked for a commit");
  commit_asked_ = false;
  const Made made = std::exchange(made_, {});
  cut_ = {.made = made,
          // A short local step counts as much for all as a long one.
          .weight = share_.weight * static_cast<double>(made.steps) / made.rates,
          .overlapped = overlapped_};
  exchange_.choose_codecs(now - trained_since_);
  take_share();
  rule_->on_commit_sent(now);
  overlapped_ = overlaps_next();
  if (overlapped_) trained_since_ = now;
}

train::Packing WorkerCore::packing(Instant now) {
  if (alignment_) return {};  // it looks at the values
  cut(now);
  return exchange_.packing();
}

void WorkerCore::on_taking(Instant now) {
  if (!cut_) cut(now);
  move_to(State::Taking);
}

void WorkerCore::on_commit(Instant now, Update update) {
  if (!cut_) cut(now);
  const Cut of = *std::exchange(cut_, std::nullopt);
  double weight = of.weight;
  if (alignment_ && update.finite) {
    const auto& [cosines, part] =
        alignment_->on_commit(*update.values, of.made.rates, of.overlapped);
    weight *= part;
    progress_.alignment = cosines;
  }
  exchange_.commit(now, {.steps = of.made.steps, .weight = weight, .began = ground_.restores},
                   std::move(update), membership_.mail());
  committed_at_ = now;
  committed_samples_ = of.made.samples;
  move_to(overlapped_ ? State::Overlapping : State::Committing);
}

std::optional<proto::ToNode> WorkerCore::poll_send() {
  if (auto out = membership_.mail().poll()) return out;
  return exchange_.poll_send(membership_.mail());
}

proto::Progress WorkerCore::take_progress() {
  progress_.loss = loss_samples_ > 0 ? loss_sum_ / static_cast<double>(loss_samples_) : 0;
  progress_.loss_samples = loss_samples_;
  loss_sum_ = 0;
  loss_samples_ = 0;
  return progress_;
}

}  // namespace rubato::worker
