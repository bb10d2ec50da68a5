#include "worker/evaluator_core.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/timers.hpp"
#include "proto/routes.hpp"

namespace rubato::worker {

using proto::Role;

EvaluatorCore::EvaluatorCore(const EvaluatorOptions& options)
    : options_(options),
      joiner_(options.timing),
      patience_(options.pull_timeout),
      mail_(options.cluster, {Role::Evaluator, 0}, options.incarnation) {}

EvaluatorCore::Action EvaluatorCore::next_action() const {
  if (failure_) return Action::Fail;
  if (stopped_) return Action::Finish;
  return evaluate_due_ ? Action::Evaluate : Action::Wait;
}

void EvaluatorCore::on_start(Instant now) {
  joiner_.on_start(now);
  on_wakeup(now);
}

void EvaluatorCore::on_wakeup(Instant now) {
  if (stopped_ || failure_) return;
  switch (joiner_.poll(now)) {
    case proto::Joiner::Due::Hello:
      mail_.send(kScheduler, proto::Hello{"evaluator", options_.parameters, "", options_.settings});
      break;
    case proto::Joiner::Due::Heartbeat:
      mail_.send(kScheduler, proto::Heartbeat{});
      break;
    case proto::Joiner::Due::Nothing:
      break;
  }
  if (auto error = joiner_.overdue(now)) failure_ = std::move(error);
  if (!next_ || now < *next_ || evaluate_due_) return;
  pulling() ? pull_again(now) : pull(now);
}

std::optional<Instant> EvaluatorCore::poll_wakeup() const {
  if (stopped_ || failure_) return std::nullopt;
  return earliest({joiner_.poll_wakeup(), evaluate_due_ ? std::nullopt : next_});
}

void EvaluatorCore::on_message(Instant now, proto::NodeId from, const proto::Message& message) {
  if (stopped_ || failure_ || !proto::has_route(from.role, Role::Evaluator, message.body)) return;
  if (message.cluster != options_.cluster) {
    failure_ = Error{ErrorCode::Refused, other_cluster(message, options_.cluster)};
    return;
  }
  if (from.role == Role::Scheduler) joiner_.on_heard(now);
  if (const auto* welcome = std::get_if<proto::Welcome>(&message.body)) {
    if (shards_) return on_moved(now, welcome->shards);
    shards_ = welcome->shards;
    gather_ = ParameterGather(*shards_);
    if (options_.averages) latest_ = ParameterGather(*shards_);
  } else if (std::holds_alternative<proto::Start>(message.body)) {
    if (!shards_ || started_) return;
    started_ = true;
    joiner_.on_joined(now);
    if (!options_.only_last) pull(now);
  } else if (std::holds_alternative<proto::Parameters>(message.body)) {
    if (pulling()) on_parameters(now, from.index, message);
  } else if (const auto* stop = std::get_if<proto::Stop>(&message.body)) {
    on_stop(now, stop->reason);
  } else if (const auto* refusal = std::get_if<proto::Refusal>(&message.body)) {
    failure_ =
        Error{ErrorCode::Refused, to_string(from) + " refused the evaluator: " + refusal->message};
  }
}

// What is being evaluated, or pulled, is of the time before the end.
void EvaluatorCore::on_stop(Instant now, const std::string& reason) {
  if (stop_reason_) return;  // told again
  stop_reason_ = reason;
  if (!started_) return leave();
  if (!evaluate_due_) pull_last(now);
}

void EvaluatorCore::pull_last(Instant now) {
  last_pull_ = true;
  patience_ = options_.pull_timeout;
  pull(now);
}

void EvaluatorCore::leave() {
  mail_.send(kScheduler, proto::Leave{*stop_reason_});
  stopped_ = stop_reason_;
}

// Another process has taken the place of a server, perhaps at the same endpoint: what was asked of
// the old one never comes.
void EvaluatorCore::on_moved(Instant now, const proto::ShardMap& shards) {
  shards_ = shards;
  if (pulling()) ask(now);
}

void EvaluatorCore::on_parameters(Instant now, std::uint32_t shard, const proto::Message& message) {
  const auto& parameters = std::get<proto::Parameters>(message.body);
  // The wait before a second question tells nothing of the link, unless an earlier answer comes.
  const bool newest = parameters.sequence > sequence_ - pulls();
  silence_ = std::max(silence_, now - (newest ? std::max(heard_at_, asked_at_) : heard_at_));
  heard_at_ = now;
  next_ = now + patience_;
  auto& gather = options_.averages && parameters.sequence % 2 == 0 ? latest_ : gather_;
  if (!gather.active()) return;
  // A shard answers in order, so nothing more comes of earlier pulls.
  if (parameters.sequence > gather.sequence() && parameters.sequence <= sequence_)
    gather.begin(parameters.sequence);
  const auto added = gather.add(shard, parameters, message.payload);
  if (!added) {
    failure_ = added.error();
  } else if (!pulling()) {
    evaluate_due_ = true;
    pulled_at_ = now;
    next_ = std::max(now, asked_at_ + options_.interval);
    patience_ = std::max(options_.pull_timeout, silence_ * 2);
  }
}

void EvaluatorCore::pull(Instant now) {
  heard_at_ = now;
  silence_ = {};
  ask(now);
  gather_.begin(sequence_ - pulls() + 1);
  if (options_.averages) latest_.begin(sequence_);
}

// Arrived chunks stay, and chunks of the earlier pull still count.
void EvaluatorCore::pull_again(Instant now) {
  patience_ = patience_ * 2;
  ask(now);
}

void EvaluatorCore::ask(Instant now) {
  asked_at_ = now;
  next_ = now + patience_;
  sequence_ += pulls();
  for (std::uint32_t shard = 0; shard < shards_->shards.size(); ++shard) {
    mail_.send({Role::Server, shard}, proto::Pull{sequence_ - pulls() + 1});
    if (options_.averages) mail_.send({Role::Server, shard}, proto::Pull{sequence_, {}, true});
  }
}

std::optional<EvaluatorCore::Measured> EvaluatorCore::on_evaluated(Instant now, double loss,
                                                                   double accuracy,
                                                                   const ClassFigures& classes) {
  Measured measured{parameters(), loss, accuracy, classes, last_pull_};
  if (options_.averages && !average_) {
    average_ = measured;
    return std::nullopt;
  }
  evaluate_due_ = false;
  Version version = gather_.version();
  std::optional<double> gap;
  if (const auto average = std::exchange(average_, std::nullopt)) {
    gap = sync::gap_between(loss, average->loss);
    if (loss < average->loss) {
      version = latest_.version();
    } else {
      measured = *average;
    }
  }
  if (!options_.silent)
    mail_.send(kScheduler, proto::Evaluation{.age = now - pulled_at_,
                                             .loss = measured.loss,
                                             .accuracy = measured.accuracy,
                                             .version = version,
                                             .classes = measured.classes,
                                             .gap = gap});
  if (last_pull_) {
    leave();
  } else if (stop_reason_) {
    pull_last(now);
  } else {
    on_wakeup(now);
  }
  return measured;
}

}  // namespace rubato::worker
