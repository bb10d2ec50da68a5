#include "server/server_core.hpp"

#include <fmt/format.h>

#include "base/check.hpp"

namespace rubato::server {

using proto::Message;
using proto::PeerId;
using proto::RefusalCode;
using proto::Role;

ServerCore::ServerCore(const ServerOptions& options, InitialParameters initial,
                       std::unique_ptr<sync::Gate> gate, PeerId scheduler)
    : options_(options),
      initial_(std::move(initial)),
      joiner_(options.timing),
      optimizer_(options.optimizer, 0),
      gate_(std::move(gate)),
      scheduler_(scheduler) {
  RUBATO_CHECK(gate_ != nullptr, "a shard needs a gate");
}

void ServerCore::on_start(Instant now) {
  joiner_.on_start(now);
  on_wakeup(now);
}

void ServerCore::on_wakeup(Instant now) {
  switch (joiner_.poll(now)) {
    case proto::Joiner::Due::Hello:
      send(scheduler_, proto::Hello{options_.name, options_.parameters, options_.endpoint});
      break;
    case proto::Joiner::Due::Heartbeat:
      send(scheduler_, proto::Heartbeat{});
      break;
    case proto::Joiner::Due::Nothing:
      break;
  }
  if (auto error = joiner_.overdue(now)) failure_ = std::move(error);
}

void ServerCore::on_message(Instant now, PeerId from, const Message& message) {
  const WorkerId worker{message.sender.index};
  if (from == scheduler_) {
    on_scheduler(now, message);
  } else if (message.cluster != options_.cluster) {
    refuse(from, RefusalCode::ClusterId, other_cluster(message, options_.cluster));
  } else if (std::holds_alternative<proto::Pull>(message.body)) {
    on_pull(from, message);
  } else if (std::holds_alternative<proto::Commit>(message.body)) {
    if (find_member(from, message)) on_commit(now, from, worker, message);
  } else if (const auto* probe = std::get_if<proto::Probe>(&message.body)) {
    if (find_member(from, message)) on_probe(from, worker, probe->sequence);
  } else {
    refuse(from, RefusalCode::BadMessage,
           fmt::format("server has no use for {} from {}", body_name(message.body),
                       to_string(message.sender)));
  }
}

void ServerCore::on_scheduler(Instant now, const Message& message) {
  joiner_.on_heard(now);
  if (const auto* welcome = std::get_if<proto::Welcome>(&message.body)) {
    on_welcome(now, *welcome);
  } else if (const auto* members = std::get_if<proto::Members>(&message.body)) {
    on_members(now, *members);
  } else if (const auto* stop = std::get_if<proto::Stop>(&message.body)) {
    stopped_ = stop->reason;
  } else if (const auto* refusal = std::get_if<proto::Refusal>(&message.body)) {
    failure_ = Error{ErrorCode::Refused, "scheduler refused this server: " + refusal->message};
  }
}

void ServerCore::on_welcome(Instant now, const proto::Welcome& welcome) {
  if (id_) return;  // the answer to a repeated Hello
  if (welcome.range.end > options_.parameters) {
    failure_ = Error{ErrorCode::Corrupt,
                     fmt::format("scheduler: our range ends at {}, our model has {} parameters",
                                 welcome.range.end, options_.parameters)};
    return;
  }
  id_ = welcome.you;
  parameters_ = initial_(welcome.range);
  RUBATO_CHECK(parameters_.size() == welcome.range.count(), "initial parameters fill the range");
  optimizer_ = Optimizer(options_.optimizer, parameters_.size());
  joiner_.on_joined(now);
}

ServerCore::MemberState* ServerCore::find_member(PeerId from, const Message& message) {
  const auto it = members_.find(WorkerId{message.sender.index});
  if (message.sender.role != Role::Worker || it == members_.end() ||
      it->second.incarnation != message.incarnation) {
    refuse(from, RefusalCode::NotMember,
           fmt::format("{} (incarnation {:016x}) is not a member: join through the scheduler first",
                       to_string(message.sender), message.incarnation));
    return nullptr;
  }
  it->second.peer = from;
  return &it->second;
}

void ServerCore::on_members(Instant now, const proto::Members& list) {
  if (!id_) return;  // our Welcome is still under way; the scheduler repeats this list
  if (list.epoch > members_epoch_) {
    members_epoch_ = list.epoch;
    std::map<WorkerId, Incarnation> wanted;
    for (const auto& member : list.members) wanted[member.worker] = member.incarnation;

    std::vector<WorkerId> gone;
    for (const auto& [worker, state] : members_) {
      const auto it = wanted.find(worker);
      if (it == wanted.end() || it->second != state.incarnation) gone.push_back(worker);
    }
    // All of them first: a round that one departure closes must not apply another leaver's commit.
    for (const auto worker : gone) members_.erase(worker);
    for (const auto worker : gone) act(now, gate_->on_leave(now, worker));
    for (const auto& [worker, incarnation] : wanted) {
      if (members_.contains(worker)) continue;
      members_[worker].incarnation = incarnation;
      gate_->on_join(now, worker);
    }
  }
  send(scheduler_, proto::MembersAck{members_epoch_});
}

void ServerCore::on_commit(Instant now, PeerId from, WorkerId worker, const Message& message) {
  const auto& commit = std::get<proto::Commit>(message.body);
  MemberState& member = members_.at(worker);
  if (commit.total != parameters_.size()) {
    refuse(from, RefusalCode::ModelSize,
           fmt::format("{} commits {} parameters, this shard holds {}: both sides need the same "
                       "[model]",
                       to_string(message.sender), commit.total, parameters_.size()));
    return;
  }
  if (commit.sequence <= member.answered) {
    ++stats_.commits_repeated;
    // Answered once per repeat of the last commit, by its first chunk; older ones are stale.
    if (commit.sequence == member.answered && commit.offset == 0)
      send_parameters(from, commit.sequence, Duration{}, member.answered_refused);
    return;
  }
  if (commit.sequence < member.commit.sequence()) return;
  if (commit.sequence > member.commit.sequence()) {
    if (member.commit.complete()) {
      refuse(from, RefusalCode::BadMessage,
             fmt::format("{} sent commit {} while {} is held: one commit in flight per worker",
                         to_string(message.sender), commit.sequence, member.commit.sequence()));
      return;
    }
    member.commit = CommitAssembly(commit.sequence, commit.total);
  }
  switch (member.commit.add(commit, message.payload)) {
    case CommitAssembly::Added::Duplicate:
      ++stats_.commits_repeated;
      return;
    case CommitAssembly::Added::Overlap:
      refuse(from, RefusalCode::BadMessage,
             fmt::format("{} sent overlapping chunks of commit {} at element {}",
                         to_string(message.sender), commit.sequence, commit.offset));
      return;
    case CommitAssembly::Added::Fresh:
      break;
  }
  if (!member.commit.complete()) return;
  member.complete_at = now;
  act(now, gate_->on_commit(now, worker));
}

void ServerCore::act(Instant now, const sync::GateActions& actions) {
  for (const auto worker : actions.apply) {
    const auto it = members_.find(worker);
    if (it != members_.end()) apply(it->second);
  }
  for (const auto worker : actions.release) {
    const auto it = members_.find(worker);
    if (it != members_.end()) release(now, it->second);
  }
}

void ServerCore::apply(MemberState& member) {
  if (!member.commit.finite()) {
    ++stats_.commits_refused;
    return;
  }
  const float rate = optimizer_.rate(members_.size());
  member.commit.for_each_chunk([&](std::uint64_t offset, std::span<const float> update) {
    optimizer_.apply(parameters_, offset, update, rate);
  });
  ++version_;
  ++stats_.commits_applied;
  snapshot_.reset();
}

void ServerCore::release(Instant now, MemberState& member) {
  member.answered = member.commit.sequence();
  member.answered_refused = !member.commit.finite();
  member.commit = CommitAssembly();
  send_parameters(*member.peer, member.answered, now - member.complete_at, member.answered_refused);
}

void ServerCore::on_pull(PeerId from, const Message& message) {
  if (!id_ || (message.sender.role == Role::Worker && !find_member(from, message))) return;
  send_parameters(from, std::get<proto::Pull>(message.body).sequence, Duration{}, false);
}

void ServerCore::on_probe(PeerId from, WorkerId worker, Sequence sequence) {
  const MemberState& member = members_.at(worker);
  if (sequence == member.answered) {
    send_parameters(from, sequence, Duration{}, member.answered_refused);
    return;
  }
  proto::ProbeReply reply;
  reply.sequence = sequence;
  if (member.commit.sequence() != sequence) {
    reply.unknown = true;
  } else if (member.commit.complete()) {
    reply.held = true;
  } else {
    reply.missing_offsets = member.commit.missing_offsets();
    reply.unknown = reply.missing_offsets.empty();
  }
  send(from, std::move(reply));
}

void ServerCore::send_parameters(PeerId to, Sequence sequence, Duration held, bool refused) {
  if (!snapshot_) snapshot_ = std::make_shared<const std::vector<float>>(parameters_);
  const proto::Payload all = proto::Payload::of(snapshot_);
  const std::uint64_t total = parameters_.size();
  const std::uint64_t chunk = options_.chunk_bytes / sizeof(float);
  for (std::uint64_t offset = 0; offset < total; offset += chunk) {
    const std::uint64_t count = std::min(chunk, total - offset);
    send(to,
         proto::Parameters{.sequence = sequence,
                           .version = version_,
                           .offset = offset,
                           .count = count,
                           .total = total,
                           .held = held,
                           .refused = refused,
                           .codec = proto::PayloadCodec::F32},
         all.slice(offset * sizeof(float), count * sizeof(float)));
  }
}

void ServerCore::send(PeerId to, proto::Body body, proto::Payload payload) {
  outbox_.push({to, Message{.cluster = options_.cluster,
                            .sender = id_.value_or(proto::NodeId{Role::Server, 0}),
                            .incarnation = options_.incarnation,
                            .body = std::move(body),
                            .payload = std::move(payload)}});
}

void ServerCore::on_bad_frame(PeerId from, const Error& error) {
  refuse(from, proto::refusal_code(error), error.message);
}

void ServerCore::refuse(PeerId to, RefusalCode code, std::string message) {
  ++stats_.messages_refused;
  send(to, proto::Refusal{code, std::move(message)});
}

}  // namespace rubato::server
