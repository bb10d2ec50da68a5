#include "worker/worker_core.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/rng.hpp"

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
      update_(options.up, options.residual, options.parameters,
              options.chunk_bytes / sizeof(float)) {
  RUBATO_CHECK(rule_ != nullptr, "a worker needs a commit rule");
}

WorkerCore::Action WorkerCore::next_action() const {
  if (failure_) return Action::Fail;
  if (stopped_) return Action::Finish;
  if (load_due_) return Action::Load;
  if (state_ != State::Ready) return Action::Wait;
  if (gather_.active()) return options_.overlap ? Action::Train : Action::Wait;
  return commit_due_ ? Action::Commit : Action::Train;
}

void WorkerCore::on_start(Instant now) {
  joiner_.on_start(now);
  on_wakeup(now);
}

void WorkerCore::on_wakeup(Instant now) {
  if (stopped_ || failure_) return;
  switch (joiner_.poll(now)) {
    case proto::Joiner::Due::Hello:
      send(kScheduler, proto::Hello{options_.name, options_.parameters, ""});
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
    const Instant at = std::max(watch_[shard].heard, watch_[shard].probed) + options_.probe_after;
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

void WorkerCore::on_message(Instant now, const proto::Message& message) {
  if (stopped_ || failure_) return;
  if (message.cluster != options_.cluster) {
    failure_ = Error{ErrorCode::Refused, other_cluster(message, options_.cluster)};
  } else if (message.sender.role == Role::Scheduler) {
    on_scheduler(now, message);
  } else if (message.sender.role == Role::Server) {
    on_server(now, message.sender.index, message);
  }
}

void WorkerCore::on_scheduler(Instant now, const proto::Message& message) {
  joiner_.on_heard(now);
  if (const auto* welcome = std::get_if<proto::Welcome>(&message.body)) {
    on_welcome(now, *welcome);
  } else if (std::holds_alternative<proto::Start>(message.body)) {
    on_go(now);
  } else if (const auto* directive = std::get_if<proto::Directive>(&message.body)) {
    if (directive->commit_rate >= 1)
      rule_->on_directive(now, {directive->commit_rate, directive->local_steps, directive->period});
  } else if (const auto* stop = std::get_if<proto::Stop>(&message.body)) {
    finish(stop->reason);
  } else if (const auto* refusal = std::get_if<proto::Refusal>(&message.body)) {
    on_refusal(now, message.sender, *refusal);
  }
}

void WorkerCore::on_welcome(Instant, const proto::Welcome& welcome) {
  if (id_) return;  // the answer to a repeated Hello
  if (welcome.shards.parameters() != options_.parameters) {
    failure_ = Error{ErrorCode::Corrupt,
                     fmt::format("scheduler: its shard map covers {} parameters, our model has {}",
                                 welcome.shards.parameters(), options_.parameters)};
    return;
  }
  id_ = welcome.you;
  shards_ = welcome.shards;
  gather_ = ParameterGather(*shards_);
  sender_ = CommitSender(*shards_, options_.chunk_bytes / sizeof(float));
  watch_.assign(shards_->shards.size(), {});
}

void WorkerCore::on_go(Instant now) {
  if (!id_ || state_ != State::Joining) return;
  joiner_.on_joined(now);
  state_ = State::Pulling;
  sent_at_ = now;
  gather_.begin(++sequence_);
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard) {
    watch_[shard] = {now, now};
    send({Role::Server, shard}, proto::Pull{sequence_});
  }
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
  load_due_ = commit_due_ = false;
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
    on_refusal(now, message.sender, *refusal);
    return;
  }
  if (!gather_.active() || shard >= watch_.size()) return;
  watch_[shard].heard = now;
  if (const auto* probe = std::get_if<proto::ProbeReply>(&message.body)) {
    if (probe->sequence == sequence_) on_probe_reply(shard, *probe);
    return;
  }
  const auto* parameters = std::get_if<proto::Parameters>(&message.body);
  if (!parameters) return;
  if (parameters->sequence == sequence_) sender_.on_answer(shard);
  const auto added = gather_.add(shard, *parameters, message.payload);
  if (!added) {
    failure_ = added.error();
  } else if (!gather_.active()) {
    on_reply_complete(now);
  }
}

void WorkerCore::on_reply_complete(Instant now) {
  load_due_ = true;
  if (state_ == State::Pulling) {
    progress_.communicate += now - sent_at_;
    return;
  }
  sender_.stop();
  update_.end();
  if (gather_.refused()) ++refused_commits_;
  const Duration round_trip = now - sent_at_;
  const Duration held = std::min(gather_.held(), round_trip);
  const Duration overhead = round_trip - held;
  progress_.overhead = ewma(progress_.overhead, overhead, kOverheadEwma);
  if (!options_.overlap) {
    progress_.wait += held;
    progress_.communicate += overhead;
  }
  ++progress_.commits;
  rule_->on_reply(now, overhead);
  outbox_.push({kScheduler, progress_message()});
}

void WorkerCore::on_loaded(Instant now) {
  RUBATO_CHECK(load_due_, "a load was due");
  load_due_ = false;
  if (state_ != State::Pulling) return;
  state_ = State::Ready;
  rule_->on_start(now);
}

std::shared_ptr<std::vector<float>> WorkerCore::release_parameters() {
  RUBATO_CHECK(!gather_.active() && !load_due_, "the parameters were loaded");
  // Differences may come down when this end asks for them.
  return proto::is_difference(options_.down.codec) ? nullptr : gather_.release();
}

void WorkerCore::on_step(Instant now, const StepReport& report) {
  if (state_ != State::Ready) return;  // a step that began before a rejoin
  ++progress_.steps;
  ++steps_since_commit_;
  progress_.compute += report.spent;
  progress_.step_time =
      progress_.steps == 1 ? report.spent : ewma(progress_.step_time, report.spent, kStepTimeEwma);
  loss_sum_ += report.loss_sum;
  loss_samples_ += static_cast<std::uint64_t>(report.samples);
  commit_due_ = rule_->on_step_end(now);
}

void WorkerCore::on_commit(Instant now, Update update) {
  RUBATO_CHECK(next_action() == Action::Commit, "the rule asked for a commit");
  RUBATO_CHECK(update.values->size() == options_.parameters, "the update covers every parameter");
  commit_due_ = false;
  update_steps_ = steps_since_commit_;
  steps_since_commit_ = 0;
  sent_at_ = now;
  rule_->on_commit_sent(now);
  RUBATO_CHECK(!update.room || update.room == update.values, "room is the update's own");
  const bool lend = !proto::is_difference(options_.down.codec);
  gather_.begin(++sequence_, lend ? std::move(update.room) : nullptr);
  update_.begin(std::move(update.values), update.finite,
                Rng(options_.incarnation, sequence_, 0).next());
  sender_.start();
  for (auto& watch : watch_) watch = {now, now};
}

std::optional<proto::ToNode> WorkerCore::poll_send() {
  if (auto out = outbox_.poll()) return out;
  while (const auto chunk = sender_.poll()) {
    if (!gather_.written_over(chunk->shard, chunk->offset)) return update_chunk(*chunk);
    sender_.on_answer(chunk->shard);  // to be sent again, but answered meanwhile
  }
  return std::nullopt;
}

proto::ToNode WorkerCore::update_chunk(const CommitSender::Chunk& chunk) {
  const auto range = shards_->shards[chunk.shard].range;
  return {{Role::Server, chunk.shard},
          make_message(proto::Commit{.sequence = sequence_,
                                     .offset = chunk.offset,
                                     .count = chunk.count,
                                     .total = range.count(),
                                     .steps = update_steps_,
                                     .codec = update_.codec(),
                                     .discard = !update_.finite(),
                                     .reply_codec = options_.down.codec,
                                     .reply_keep = options_.down.keep,
                                     .reply_based = gather_.based(chunk.shard)},
                       update_.chunk(range.begin + chunk.offset, chunk.count))};
}

void WorkerCore::on_probe_reply(std::uint32_t shard, const proto::ProbeReply& reply) {
  if (reply.held || !gather_.waiting_for(shard)) return;
  if (!update_.active()) {  // a pull: nothing of it is kept at the server
    send({Role::Server, shard}, proto::Pull{sequence_});
  } else if (!reply.unknown && reply.missing_offsets.empty()) {
    sender_.on_answer(shard);
  } else {
    send_again(shard, reply);
  }
}

// Of what is sent twice, one may still be on its way when the other is answered.
void WorkerCore::send_again(std::uint32_t shard, const proto::ProbeReply& reply) {
  gather_.leave_room();
  if (reply.unknown) {
    sender_.send_all_again(shard);
  } else {
    sender_.send_again(shard, reply.missing_offsets);
  }
}

void WorkerCore::watch_servers(Instant now) {
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard) {
    if (!gather_.waiting_for(shard)) continue;
    ServerWatch& watch = watch_[shard];
    if (now >= watch.heard + options_.server_timeout) {
      failure_ =
          Error{ErrorCode::Timeout,
                fmt::format("server {} at {}: no answer to {} {} for {:.0f} s", shard,
                            shards_->shards[shard].endpoint, update_.active() ? "commit" : "pull",
                            sequence_, options_.server_timeout.seconds())};
      return;
    }
    if (now >= std::max(watch.heard, watch.probed) + options_.probe_after) {
      watch.probed = now;
      send({Role::Server, shard}, proto::Probe{sequence_});
    }
  }
}

void WorkerCore::on_bytes(std::uint64_t up, std::uint64_t down) {
  progress_.bytes_up += up;
  progress_.bytes_down += down;
}

proto::Message WorkerCore::progress_message() {
  progress_.loss = loss_samples_ > 0 ? loss_sum_ / static_cast<double>(loss_samples_) : 0;
  progress_.loss_samples = loss_samples_;
  loss_sum_ = 0;
  loss_samples_ = 0;
  return make_message(progress_);
}

void WorkerCore::send(NodeId to, proto::Body body, proto::Payload payload) {
  outbox_.push({to, make_message(std::move(body), std::move(payload))});
}

proto::Message WorkerCore::make_message(proto::Body body, proto::Payload payload) const {
  return {.cluster = options_.cluster,
          .sender = id_.value_or(NodeId{Role::Worker, 0}),
          .incarnation = options_.incarnation,
          .body = std::move(body),
          .payload = std::move(payload)};
}

}  // namespace rubato::worker
