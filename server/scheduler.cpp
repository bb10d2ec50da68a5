#include "server/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace rubato::server {

using proto::Message;
using proto::PeerId;
using proto::RefusalCode;
using proto::Role;

namespace {

std::optional<Instant> earlier(std::optional<Instant> a, std::optional<Instant> b) {
  if (!a) return b;
  if (!b) return a;
  return std::min(*a, *b);
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, std::unique_ptr<sync::Tuner> tuner)
    : options_(options),
      tuner_(std::move(tuner)),
      criterion_(options.stop),
      worker_silence_(options.lost_after),
      server_silence_(options.lost_after) {
  RUBATO_CHECK(options.servers >= 1 && options.workers >= 1, "a cluster has servers and workers");
}

void Scheduler::on_message(Instant now, PeerId from, const Message& message) {
  if (message.cluster != options_.cluster) {
    refuse(from, RefusalCode::ClusterId, other_cluster(message, options_.cluster));
    return;
  }
  if (message.sent.ns != 0) send(from, proto::Heartbeat{.echo = message.sent, .clock = now});
  if (std::holds_alternative<proto::Hello>(message.body)) {
    on_hello(now, from, message);
    return;
  }
  switch (message.sender.role) {
    case Role::Worker: {
      WorkerState* worker = find_worker(from, message);
      if (!worker) return;
      const WorkerId id{message.sender.index};
      worker_silence_.heard(id.value, now);
      if (const auto* progress = std::get_if<proto::Progress>(&message.body))
        on_progress(now, id, *progress);
      else if (const auto* leave = std::get_if<proto::Leave>(&message.body))
        on_leave(now, id, WorkerState::Fate::Left, leave->reason);
      return;
    }
    case Role::Server:
      on_server(now, from, message);
      return;
    case Role::Evaluator:
      on_evaluator(now, from, message);
      return;
    case Role::Scheduler:
      refuse(from, RefusalCode::BadMessage, "a cluster has one scheduler, and it is this one");
      return;
  }
}

void Scheduler::on_server(Instant now, PeerId from, const Message& message) {
  const std::uint32_t index = message.sender.index;
  if (index >= servers_.size() || servers_[index].incarnation != message.incarnation) {
    refuse(from, RefusalCode::NotMember,
           fmt::format("{} is of another run: restart it to join this one",
                       to_string(message.sender)));
    return;
  }
  servers_[index].peer = from;
  server_silence_.heard(index, now);
  if (over()) {
    send(from, proto::Stop{*stop_reason_});  // the first one did not arrive
  } else if (const auto* ack = std::get_if<proto::MembersAck>(&message.body)) {
    lists_.on_ack(index, ack->epoch);
    send_due_lists();
    start_ready_workers(now);
  }
}

void Scheduler::on_evaluator(Instant now, PeerId from, const Message& message) {
  if (!evaluator_ || evaluator_->incarnation != message.incarnation) {
    refuse(from, RefusalCode::NotMember, "the evaluator is of another run: restart it");
    return;
  }
  evaluator_->peer = from;
  if (std::holds_alternative<proto::Leave>(message.body)) {
    evaluator_.reset();
    end_step(now);
  } else if (const auto* evaluation = std::get_if<proto::Evaluation>(&message.body))
    on_evaluation(now, now - evaluation->age, evaluation->loss, evaluation->accuracy);
}

void Scheduler::on_hello(Instant now, PeerId from, const Message& message) {
  const auto& hello = std::get<proto::Hello>(message.body);
  if (hello.parameters != options_.parameters) {
    refuse(from, RefusalCode::ModelSize,
           fmt::format("{} '{}' has a model of {} parameters, the cluster's has {}: use the same "
                       "cluster file on every node",
                       role_name(message.sender.role), hello.name, hello.parameters,
                       options_.parameters));
  } else if (hello.settings != options_.settings) {
    refuse(from, RefusalCode::OtherSettings,
           other_settings(message.sender, hello, options_.settings));
  } else if (stop_reason_) {
    refuse(from, RefusalCode::Stopped, "the run is over: " + *stop_reason_);
  } else if (message.sender.role == Role::Server) {
    on_server_hello(now, from, message);
  } else if (message.sender.role == Role::Worker) {
    on_worker_hello(now, from, message);
  } else if (message.sender.role == Role::Evaluator) {
    on_evaluator_hello(from, message.incarnation);
  } else {
    refuse(from, RefusalCode::BadMessage, "a cluster has one scheduler, and it is this one");
  }
}

void Scheduler::on_server_hello(Instant now, PeerId from, const Message& message) {
  const auto& hello = std::get<proto::Hello>(message.body);
  auto it = std::find_if(servers_.begin(), servers_.end(),
                         [&](const ServerState& s) { return s.name == hello.name; });
  if (it == servers_.end()) {
    if (serving()) {
      refuse(from, RefusalCode::ClusterFull,
             fmt::format("all {} shards have a server: raise servers.count in the cluster file",
                         options_.servers));
      return;
    }
    servers_.push_back({.name = hello.name,
                        .endpoint = hello.endpoint,
                        .incarnation = message.incarnation,
                        .peer = from});
    lists_.add_server();
    it = servers_.end() - 1;
    log(SchedulerEvent::Kind::Joined, fmt::format("server {} '{}' at {} joined",
                                                  servers_.size() - 1, hello.name, hello.endpoint));
    if (serving() && evaluator_) welcome_evaluator();
  } else if (it->incarnation != message.incarnation) {
    refuse(from, RefusalCode::NameTaken,
           fmt::format("server name '{}' is taken: choose another --name", hello.name));
    return;
  }
  it->peer = from;
  const auto index = static_cast<std::uint32_t>(it - servers_.begin());
  server_silence_.heard(index, now);
  send(from,
       proto::Welcome{.you = {Role::Server, index},
                      .parameters = options_.parameters,
                      .range = proto::shard_range(options_.parameters, index, options_.servers),
                      .shards = {}});
}

void Scheduler::on_worker_hello(Instant now, PeerId from, const Message& message) {
  const auto& hello = std::get<proto::Hello>(message.body);
  if (const auto known = members_.find(hello.name); known != members_.end()) {
    const WorkerId id = known->second;
    WorkerState& worker = workers_[id.value];
    if (worker.incarnation != message.incarnation) {
      refuse(from, RefusalCode::NameTaken,
             fmt::format("worker name '{}' is taken by a live member: choose another --name, or "
                         "wait {:.0f} s for a dead one to be declared lost",
                         hello.name, options_.lost_after.seconds()));
      return;
    }
    worker.peer = from;
    worker_silence_.heard(id.value, now);
    if (serving()) {
      welcome_worker(id);
      if (worker.started) send(from, proto::Start{});
    }
    return;
  }
  if (!serving()) {
    send(from, proto::Heartbeat{});  // a sign of life; the worker repeats its Hello
    return;
  }
  if (members_.size() >= kWorkersMax) {
    refuse(from, RefusalCode::ClusterFull,
           fmt::format("the cluster has its {} workers", kWorkersMax));
    return;
  }
  const WorkerId id{static_cast<std::uint32_t>(workers_.size())};
  WorkerState worker;
  worker.name = hello.name;
  worker.incarnation = message.incarnation;
  worker.peer = from;
  worker.epoch = lists_.epoch() + 1;
  workers_.push_back(std::move(worker));
  members_.emplace(hello.name, id);
  joined_.push_back(id);
  worker_silence_.heard(id.value, now);
  log(SchedulerEvent::Kind::Joined, fmt::format("worker {} '{}' joined", id.value, hello.name));
  if (tuner_) tuner_->on_join(now, id);
  welcome_worker(id);
  change_members(now);
  drain_tuner(now);
}

void Scheduler::on_evaluator_hello(PeerId from, Incarnation incarnation) {
  evaluator_ = {.incarnation = incarnation, .peer = from};
  if (!serving()) {
    send(from, proto::Heartbeat{});
    return;
  }
  welcome_evaluator();
  if (started_) send(from, proto::Start{});
}

void Scheduler::welcome_evaluator() {
  send(evaluator_->peer, proto::Welcome{.you = {Role::Evaluator, 0},
                                        .parameters = options_.parameters,
                                        .range = {},
                                        .shards = shard_map()});
}

proto::ShardMap Scheduler::shard_map() const {
  proto::ShardMap map;
  for (std::uint32_t i = 0; i < servers_.size(); ++i)
    map.shards.push_back(
        {proto::shard_range(options_.parameters, i, options_.servers), servers_[i].endpoint});
  return map;
}

void Scheduler::welcome_worker(WorkerId worker) {
  send(workers_[worker.value].peer, proto::Welcome{.you = {Role::Worker, worker.value},
                                                   .parameters = options_.parameters,
                                                   .range = {},
                                                   .shards = shard_map()});
}

void Scheduler::change_members(Instant now) {
  lists_.on_change(now);
  send_due_lists();
}

void Scheduler::send_due_lists() {
  const auto due = lists_.poll_due(members_.size());
  if (due.empty()) return;
  proto::Members list{.epoch = lists_.epoch(), .members = {}, .phase = phase_};
  list.members.reserve(members_.size());
  for (std::uint32_t id = 0; id < workers_.size(); ++id)
    if (workers_[id].fate == WorkerState::Fate::Member)
      list.members.push_back({WorkerId{id}, workers_[id].incarnation});
  for (const auto index : due) send(servers_[index].peer, list);
}

void Scheduler::start_ready_workers(Instant now) {
  const std::uint64_t acked = lists_.acked();
  if (!started_) {
    if (acked < lists_.epoch() || members_.size() < options_.workers) return;
    started_ = now;
    log(SchedulerEvent::Kind::Started, fmt::format("training starts with {} workers on {} shards",
                                                   members_.size(), servers_.size()));
    if (tuner_) tuner_->on_start(now);
    if (evaluator_) send(evaluator_->peer, proto::Start{});
    if (!options_.evaluator) next_training_evaluation_ = now + options_.evaluation_interval;
  }
  while (!joined_.empty() && workers_[joined_.front().value].epoch <= acked) {
    WorkerState& worker = workers_[joined_.front().value];
    joined_.pop_front();
    if (worker.fate != WorkerState::Fate::Member) continue;
    worker.started = true;
    send(worker.peer, proto::Start{});
  }
  drain_tuner(now);
}

void Scheduler::on_progress(Instant now, WorkerId id, const proto::Progress& progress) {
  WorkerState& worker = workers_[id.value];
  steps_ += progress.steps - worker.progress.steps;
  commits_ += progress.commits - worker.progress.commits;
  worker.progress = progress;
  if (progress.loss_samples > 0) {
    training_loss_sum_ += progress.loss * static_cast<double>(progress.loss_samples);
    training_loss_samples_ += progress.loss_samples;
  }
  if (tuner_) {
    tuner_->on_progress(now, id, progress);
    drain_tuner(now);
  }
  if (started_ && !stop_reason_)
    if (auto reason = criterion_.on_progress(seconds(now), steps())) stop(now, std::move(*reason));
}

void Scheduler::drain_tuner(Instant now) {
  if (!tuner_) return;
  if (!stop_reason_ && !(tuner_->phase() == phase_)) {
    phase_ = tuner_->phase();
    change_members(now);
  }
  while (auto order = tuner_->poll_order()) {
    if (order->worker.value < workers_.size())
      send(workers_[order->worker.value].peer, order->directive);
  }
  while (auto decision = tuner_->poll_decision()) {
    log(SchedulerEvent::Kind::Decision,
        fmt::format("tuner at {:.3f} s: {} {:g}: {}", seconds(decision->at), decision->quantity,
                    decision->value, decision->reason));
    record_.decisions.push_back({seconds(decision->at), std::move(decision->quantity),
                                 decision->value, std::move(decision->reason)});
  }
}

void Scheduler::on_evaluation(Instant now, Instant at, double loss, double accuracy) {
  if (!started_ || stop_reason_) return;
  const double t = std::max(0.0, seconds(at));
  record_evaluation(t, loss, accuracy);
  if (tuner_) {
    tuner_->on_evaluation(now, {.at = at, .loss = loss, .accuracy = accuracy});
    drain_tuner(now);
  }
  if (auto reason = criterion_.on_evaluation(t, loss, accuracy)) stop(now, std::move(*reason));
}

void Scheduler::evaluate_training_loss(Instant now) {
  if (!next_training_evaluation_ || now < *next_training_evaluation_) return;
  next_training_evaluation_ = now + options_.evaluation_interval;
  if (training_loss_samples_ == 0) return;
  const double loss = training_loss_sum_ / static_cast<double>(training_loss_samples_);
  training_loss_sum_ = 0;
  training_loss_samples_ = 0;
  on_evaluation(now, now, loss, std::numeric_limits<double>::quiet_NaN());
}

void Scheduler::on_leave(Instant now, WorkerId id, WorkerState::Fate fate, const std::string& why) {
  WorkerState& worker = workers_[id.value];
  if (stop_reason_ && fate == WorkerState::Fate::Left) {
    end_membership(id, WorkerState::Fate::Done);
    end_step(now);
    return;
  }
  end_membership(id, fate);
  const bool left = fate == WorkerState::Fate::Left;
  log(left ? SchedulerEvent::Kind::Left : SchedulerEvent::Kind::Lost,
      fmt::format("worker {} '{}' {}: {}", id.value, worker.name, left ? "left" : "lost", why));
  if (stop_reason_) return end_step(now);
  if (tuner_) tuner_->on_leave(now, id);
  change_members(now);
  drain_tuner(now);
  if (started_ && members_.empty()) stop(now, "no worker is left");
}

void Scheduler::end_membership(WorkerId id, WorkerState::Fate fate) {
  WorkerState& worker = workers_[id.value];
  worker.fate = fate;
  members_.erase(worker.name);
  worker_silence_.forget(id.value);
}

void Scheduler::find_lost(Instant now) {
  auto lost = worker_silence_.lost(now);
  std::ranges::sort(lost);
  for (const auto id : lost)
    on_leave(now, WorkerId{id}, WorkerState::Fate::Lost,
             fmt::format("no heartbeat for {:.0f} s", options_.lost_after.seconds()));
  if (stop_reason_) return;
  const auto silent = server_silence_.lost(now);
  if (silent.empty()) return;
  const std::uint32_t first = std::ranges::min(silent);
  stop_without_parameters(now,
       fmt::format("server {} '{}' at {} lost: no heartbeat for {:.0f} s", first,
                   servers_[first].name, servers_[first].endpoint, options_.lost_after.seconds()));
}

void Scheduler::on_wakeup(Instant now) {
  if (tuner_ && started_ && !stop_reason_) {
    const auto due = tuner_->poll_wakeup();
    if (due && *due <= now) {
      tuner_->on_wakeup(now);
      drain_tuner(now);
    }
  }
  evaluate_training_loss(now);
  if (lists_.on_wakeup(now)) send_due_lists();
  find_lost(now);
  end_step(now);
  if (started_ && !stop_reason_)
    if (auto reason = criterion_.on_progress(seconds(now), steps())) stop(now, std::move(*reason));
}

std::optional<Instant> Scheduler::poll_wakeup() const {
  std::optional<Instant> next = earlier(lists_.poll_wakeup(), worker_silence_.poll_wakeup());
  if (stop_reason_) return over() ? next : earlier(next, ending_until_);
  next = earlier(next, server_silence_.poll_wakeup());
  next = earlier(next, next_training_evaluation_);
  if (tuner_ && started_) next = earlier(next, tuner_->poll_wakeup());
  if (started_ && options_.stop.max_seconds)
    next = earlier(next, *started_ + Duration::from_seconds(*options_.stop.max_seconds));
  return next;
}

void Scheduler::stop(Instant now, std::string reason) {
  if (stop_reason_) return;
  stop_reason_ = std::move(reason);
  stopped_at_ = now;
  lists_.stop();
  log(SchedulerEvent::Kind::Stopped, "stop: " + *stop_reason_);
  const proto::Stop message{*stop_reason_};
  for (const auto& worker : workers_)
    if (worker.fate == WorkerState::Fate::Member) send(worker.peer, message);
  ending_ = Ending::Workers;
  ending_until_ = now + options_.farewell;
  end_step(now);
}

void Scheduler::stop_without_parameters(Instant now, std::string reason) {
  stop(now, std::move(reason));
  if (ending_ == Ending::Over) return;
  if (evaluator_ && ending_ == Ending::Workers) send(evaluator_->peer, proto::Stop{*stop_reason_});
  evaluator_.reset();
  ending_until_ = now;
  end_step(now);
}

void Scheduler::end_step(Instant now) {
  if (ending_ == Ending::Workers && (members_.empty() || now >= ending_until_)) {
    ending_ = Ending::Evaluator;
    ending_until_ = now + options_.last_pull;
    if (evaluator_) send(evaluator_->peer, proto::Stop{*stop_reason_});
  }
  if (ending_ == Ending::Evaluator && (!evaluator_ || now >= ending_until_)) {
    if (evaluator_)
      log(SchedulerEvent::Kind::Stopped,
          fmt::format("the evaluator's last pull took longer than {:.0f} s: the servers end",
                      options_.last_pull.seconds()));
    ending_ = Ending::Over;
    for (const auto& server : servers_) send(server.peer, proto::Stop{*stop_reason_});
  }
}

bool Scheduler::drained() const {
  return stop_reason_.has_value() && members_.empty();
}

Scheduler::WorkerState* Scheduler::find_worker(PeerId from, const Message& message) {
  const std::uint32_t id = message.sender.index;
  if (id >= workers_.size() || workers_[id].incarnation != message.incarnation) {
    refuse(from, RefusalCode::NotMember,
           fmt::format("{} is not a member: join first", to_string(message.sender)));
    return nullptr;
  }
  WorkerState& worker = workers_[id];
  if (worker.fate == WorkerState::Fate::Lost) {
    refuse(from, RefusalCode::NotMember,
           fmt::format("{} '{}' was declared lost: restart it to join again",
                       to_string(message.sender), worker.name));
    return nullptr;
  }
  if (worker.fate != WorkerState::Fate::Member) return nullptr;  // it left: a late message
  worker.peer = from;
  return &worker;
}

void Scheduler::send(PeerId to, proto::Body body) {
  outbox_.push({to, Message{.cluster = options_.cluster,
                            .sender = {Role::Scheduler, 0},
                            .incarnation = options_.incarnation,
                            .body = std::move(body),
                            .payload = {}}});
}

void Scheduler::on_bad_frame(PeerId from, const Error& error) {
  refuse(from, proto::refusal_code(error), error.message);
}

void Scheduler::refuse(PeerId to, RefusalCode code, std::string message) {
  send(to, proto::Refusal{code, std::move(message)});
}

double Scheduler::seconds(Instant at) const {
  return started_ ? (at - *started_).seconds() : 0;
}

}  // namespace rubato::server
