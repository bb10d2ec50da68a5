#include "worker/worker_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "worker/elastic_exchange.hpp"

namespace rubato::worker {

using proto::NodeId;
using proto::Role;

namespace {

constexpr NodeId kScheduler{Role::Scheduler, 0};
constexpr double kStepTimeEwma = 0.2;
constexpr double kOverheadEwma = 0.5;  // algorithms.md section 1

Duration ewma(Duration old, Duration sample, double factor) {
  return old * (1 - factor) + sample * factor;
}

}  // namespace

WorkerCore::WorkerCore(const WorkerOptions& options, std::unique_ptr<sync::CommitRule> rule)
    : options_(options),
      rule_(std::move(rule)),
      joiner_(options.timing),
      codecs_({.up = options.up,
               .down = options.down,
               .auto_up = options.auto_up,
               .auto_down = options.auto_down,
               .parameters = options.parameters}),
      update_(options.up, options.residual, options.parameters, options.chunk_bytes / sizeof(float),
              options.blank) {
  RUBATO_CHECK(rule_ != nullptr, "a worker needs a commit rule");
  RUBATO_CHECK(!options.elastic || options.weight < 1, "an elastic pull is a part of the way");
  weight_ = options.weight;
}

WorkerCore::Action WorkerCore::next_action() const {
  if (failure_) return Action::Fail;
  if (stopped_) return Action::Finish;
  if (load_due_) return restarts() ? Action::Restart : Action::Load;
  if (state_ != State::Ready) return Action::Wait;
  if (gather_.active() && may_begin_early()) return Action::TrainEarly;
  if (gather_.active()) return overlaps_ ? Action::Train : Action::Wait;
  if (early_) return Action::Wait;
  return commit_due_ ? Action::Commit : Action::Train;
}

void WorkerCore::on_wakeup(Instant now) {
  if (stopped_ || failure_) return;
  switch (joiner_.poll(now)) {
    case proto::Joiner::Due::Hello:
      send(kScheduler, proto::Hello{options_.name, options_.parameters, "", options_.settings});
      break;
    case proto::Joiner::Due::Heartbeat:
      outbox_.push({kScheduler, progress_message()});
      break;
    case proto::Joiner::Due::Nothing:
      break;
  }
  if (auto error = joiner_.overdue(now)) failure_ = std::move(error);
  if (gather_.active()) watch_servers(now);
}

std::optional<Instant> WorkerCore::poll_wakeup() const {
  if (stopped_ || failure_) return std::nullopt;
  auto next = joiner_.poll_wakeup();
  if (!gather_.active()) return next;
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard) {
    if (!gather_.waiting_for(shard)) continue;
    const Instant at = watch_.due(shard);
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

void WorkerCore::on_message(Instant now, NodeId from, const proto::Message& message) {
  if (stopped_ || failure_) return;
  if (message.cluster != options_.cluster) {
    failure_ = Error{ErrorCode::Refused, other_cluster(message, options_.cluster)};
  } else if (from.role == Role::Scheduler) {
    on_scheduler(now, message);
  } else if (from.role == Role::Server) {
    on_server(now, from.index, message);
  }
}

void WorkerCore::on_scheduler(Instant now, const proto::Message& message) {
  joiner_.on_heard(now);
  if (const auto* welcome = std::get_if<proto::Welcome>(&message.body)) {
    on_welcome(message.incarnation, *welcome);
  } else if (std::holds_alternative<proto::Start>(message.body)) {
    on_go(now);
  } else if (const auto* directive = std::get_if<sync::Directive>(&message.body)) {
    on_directive(now, *directive);
  } else if (const auto* stop = std::get_if<proto::Stop>(&message.body)) {
    finish(stop->reason);
  } else if (const auto* refusal = std::get_if<proto::Refusal>(&message.body)) {
    on_refusal(now, kScheduler, *refusal);
  }
}

void WorkerCore::on_directive(Instant now, const sync::Directive& directive) {
  if (!is_valid(directive)) return;
  local_rate_ = directive.local_rate;
  if (directive.batch == 0) {
    weight_ = directive.weight;
  } else {
    next_share_ = {directive.batch, directive.weight};
    if (state_ != State::Ready) take_share();
  }
  rule_->on_directive(now, directive);
}

// A commit has one weight, so all its steps have one batch.
void WorkerCore::take_share() {
  if (!next_share_) return;
  time_anew_ = next_share_->batch != batch_;
  batch_ = next_share_->batch;
  weight_ = next_share_->weight;
  next_share_.reset();
}

void WorkerCore::on_welcome(Incarnation run, const proto::Welcome& welcome) {
  if (id_) return;  // the answer to a repeated Hello
  if (welcome.shards.parameters() != options_.parameters) {
    failure_ = Error{ErrorCode::Corrupt,
                     fmt::format("scheduler: its shard map covers {} parameters, our model has {}",
                                 welcome.shards.parameters(), options_.parameters)};
    return;
  }
  if (run_ != run) join_run(run);
  id_ = welcome.you;
  shards_ = welcome.shards;
  gather_ = ParameterGather(*shards_, options_.blank);
  sender_ = CommitSender(*shards_, options_.chunk_bytes / sizeof(float),
                         forward().empty() ? ShardOrder::InTurns : ShardOrder::ByNeed);
  watch_ = ServerWatch(shards_->shards.size(), {options_.probe_after, options_.server_timeout});
}

// What was trained or left unsent in another run stands on parameters that this one never had.
void WorkerCore::join_run(Incarnation run) {
  changed_run_ = run_.has_value();
  run_ = run;
  const auto left = update_.join(run);
  if (left == Residual::Left::ThisRun) log_.push("sends what its last life has left of this run");
  if (left == Residual::Left::AnotherRun) log_.push("drops what another run has left unsent");
}

void WorkerCore::on_go(Instant now) {
  if (!id_ || state_ != State::Joining) return;
  joiner_.on_joined(now);
  state_ = State::Pulling;
  sent_at_ = now;
  lost_ = false;
  gather_.begin(++sequence_);
  codecs_.on_pull();
  ping_servers();
  watch_.begin(now);
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard)
    send({Role::Server, shard}, proto::Pull{sequence_});
}

void WorkerCore::on_refusal(Instant now, NodeId from, const proto::Refusal& refusal) {
  if (refusal.code != proto::RefusalCode::NotMember) {
    failure_ =
        Error{ErrorCode::Refused, to_string(from) + " refused this worker: " + refusal.message};
    return;
  }
  // Every message of our last life that was under way is refused. A peer answers in order, so its
  // refusals are old ones until it has welcomed this life (scheduler) or served its pull (server).
  const bool current = from.role == Role::Scheduler ? id_.has_value() : state_ == State::Ready;
  if (current) rejoin(now);  // an outage outlasted our membership
}

void WorkerCore::rejoin(Instant now) {
  ++options_.incarnation;
  state_ = State::Joining;
  id_.reset();
  shards_.reset();
  gather_ = {};
  sender_ = {};
  update_.end();
  load_due_ = commit_due_ = overlaps_ = early_ = false;
  weight_ = options_.weight;
  batch_ = 0;
  local_rate_ = 1;
  alignment_ = {};
  next_share_.reset();
  elastic_.clear();
  progress_ = {};
  joiner_ = proto::Joiner(options_.timing);
  on_start(now);
}

void WorkerCore::finish(const std::string& reason) {
  stopped_ = reason;
  if (!id_) return;
  outbox_.push({kScheduler, progress_message()});
  send(kScheduler, proto::Leave{reason});
}

void WorkerCore::on_server(Instant now, std::uint32_t shard, const proto::Message& message) {
  if (const auto* refusal = std::get_if<proto::Refusal>(&message.body)) {
    on_refusal(now, {Role::Server, shard}, *refusal);
    return;
  }
  if (!gather_.active() || shard >= watch_.size()) return;
  if (gather_.waiting_for(shard)) watch_.on_heard(shard, now);
  if (const auto* reply = std::get_if<proto::ProbeReply>(&message.body)) {
    on_probe_reply(now, shard, *reply);
    return;
  }
  const auto* parameters = std::get_if<proto::Parameters>(&message.body);
  if (!parameters) return;
  if (parameters->sequence == sequence_) {
    sender_.on_answer(shard);
    codecs_.on_received(message.payload.size());
  }
  const auto added = gather_.add(shard, *parameters, message.payload);
  if (!added) {
    failure_ = added.error();
  } else if (!gather_.active()) {
    on_reply_complete(now);
  }
}

void WorkerCore::on_reply_complete(Instant now) {
  load_due_ = !early_;  // else the step under way does it
  if (update_.rebase(gather_.restores())) log_.push("drops what went unsent before a restore");
  if (state_ == State::Pulling) {
    progress_.communicate += now - sent_at_;
    if (!lost_) codecs_.on_pulled(now - sent_at_, watch_.size());
    return;
  }
  sender_.stop();
  elastic_.clear();
  if (options_.elastic && options_.exchange && !gather_.refused())
    elastic_exchange(update_.values(), gather_.values(), update_weight_, elastic_);
  if (gather_.refused()) {
    ++refused_commits_;
    alignment_ = {};
    if (update_.finite()) update_.drop_residual();
  }
  update_.end();
  const Duration round_trip = now - sent_at_;
  const Duration held = std::min(gather_.held(), round_trip);
  const Duration overhead = round_trip - held;
  progress_.overhead = ewma(progress_.overhead, overhead, kOverheadEwma);
  if (!overlaps_) {
    const Duration idle = early_ ? early_since_ - sent_at_ : round_trip;
    progress_.wait += std::min(held, idle);
    blocked_ = idle - std::min(held, idle);
    progress_.communicate += blocked_;
    if (!early_) note_blocked();
  }
  ++progress_.commits;
  if (!lost_) codecs_.on_reply(overhead, held, watch_.size());
  rule_->on_reply(now, overhead);
  if (early_) began_ = gather_.restores();
  if (early_ && options_.alignment) alignment_.on_loaded(parameters());
  outbox_.push({kScheduler, progress_message()});
}

void WorkerCore::on_loaded(Instant now) {
  RUBATO_CHECK(load_due_, "a load was due");
  load_due_ = false;
  if (restarts()) {
    commit_due_ = false;
    forget_steps();
  }
  changed_run_ = false;
  began_ = gather_.restores();
  if (options_.alignment) alignment_.on_loaded(parameters());
  if (!overlaps_ || state_ == State::Pulling) codecs_since_ = now;
  if (state_ != State::Pulling) return;
  state_ = State::Ready;
  rule_->on_start(now);
}

void WorkerCore::on_step(Instant now, const StepReport& report) {
  if (state_ != State::Ready) return;  // a step that began before a rejoin
  if (std::exchange(early_, false)) {
    RUBATO_CHECK(!gather_.active(), "all parameters of the step had arrived");
    progress_.communicate += now - early_since_ - report.spent;
    blocked_ += now - early_since_ - report.spent;
    note_blocked();
    codecs_since_ = now - report.spent;
  }
  ++progress_.steps;
  ++steps_since_commit_;
  rates_since_commit_ += report.rate;
  progress_.compute += report.spent;
  const bool first = progress_.steps == 1 || std::exchange(time_anew_, false);
  progress_.step_time =
      first ? report.spent : ewma(progress_.step_time, report.spent, kStepTimeEwma);
  progress_.batch = batch_;
  loss_sum_ += report.loss_sum;
  loss_samples_ += static_cast<std::uint64_t>(report.samples);
  commit_due_ = rule_->on_step_end(now);
}

void WorkerCore::on_commit(Instant now, Update update) {
  RUBATO_CHECK(next_action() == Action::Commit, "the rule asked for a commit");
  RUBATO_CHECK(options_.blank || update.values->size() == options_.parameters,
               "the update covers every parameter");
  commit_due_ = false;
  update_steps_ = steps_since_commit_;
  // A short local step counts as much for all as a long one.
  update_weight_ = weight_ * static_cast<double>(update_steps_) / rates_since_commit_;
  if (options_.alignment) measure_alignment(update);
  take_share();
  forget_steps();
  sent_at_ = now;
  lost_ = false;
  rule_->on_commit_sent(now);
  if (auto line = codecs_.on_commit(now - codecs_since_)) log_.push(std::move(*line));
  overlaps_ = options_.overlap != sync::Overlap::Never;
  if (options_.overlap == sync::Overlap::UnlessQuick)
    overlaps_ = !sync::are_quick(progress_.overhead, progress_.step_time);
  if (overlaps_) codecs_since_ = now;
  RUBATO_CHECK(!update.room || update.room == update.values, "room is the update's own");
  gather_.begin(++sequence_, lends() ? std::move(update.room) : nullptr);
  ping_servers();
  update_.use(codecs_.up());
  update_.begin(std::move(update.values), update.finite,
                Rng(options_.incarnation, sequence_, 0).next());
  sender_.start();
  watch_.begin(now);
}

void WorkerCore::measure_alignment(const Update& update) {
  if (!update.finite) return;
  const auto& [cosines, part] =
      alignment_.on_commit(*update.values, rates_since_commit_, overlaps_);
  update_weight_ *= part;
  progress_.alignment = cosines;
}

std::optional<proto::ToNode> WorkerCore::poll_send() {
  if (auto out = outbox_.poll()) return out;
  while (const auto chunk = sender_.poll()) {
    if (!gather_.written_over(chunk->shard, chunk->offset)) return update_chunk(*chunk);
    sender_.on_dropped(chunk->shard);  // to be sent again, but answered meanwhile
  }
  return std::nullopt;
}

proto::ToNode WorkerCore::update_chunk(const CommitSender::Chunk& chunk) {
  const auto range = shards_->shards[chunk.shard].range;
  auto payload = update_.chunk(range.begin + chunk.offset, chunk.count);
  codecs_.on_sent(payload.size());
  return {{Role::Server, chunk.shard},
          make_message(proto::Commit{.sequence = sequence_,
                                     .offset = chunk.offset,
                                     .count = chunk.count,
                                     .total = range.count(),
                                     .steps = update_steps_,
                                     .codec = update_.codec(chunk.count),
                                     .discard = !update_.finite(),
                                     .reply_codec = codecs_.down().codec,
                                     .reply_keep = codecs_.down().keep,
                                     .reply_based = gather_.based(chunk.shard),
                                     .weight = update_weight_,
                                     .elastic = options_.elastic,
                                     .began = began_},
                       std::move(payload))};
}

proto::Message WorkerCore::progress_message() {
  progress_.loss = loss_samples_ > 0 ? loss_sum_ / static_cast<double>(loss_samples_) : 0;
  progress_.loss_samples = loss_samples_;
  loss_sum_ = 0;
  loss_samples_ = 0;
  return make_message(progress_);
}

proto::Message WorkerCore::make_message(proto::Body body, proto::Payload payload) const {
  return {.cluster = options_.cluster,
          .sender = id_.value_or(NodeId{Role::Worker, 0}),
          .incarnation = options_.incarnation,
          .body = std::move(body),
          .payload = std::move(payload)};
}

}  // namespace rubato::worker
