#include "server/server_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/numbers.hpp"

namespace rubato::server {

using proto::Message;
using proto::PeerId;
using proto::RefusalCode;
using proto::Role;

namespace {

// Who sends checksums gets them; only parameters as they are keep theirs.
ShardParameters::Checksum answer_checksum(const ReplyState& reply, const proto::Payload& update) {
  const bool wanted = update.checksum() && reply.wanted.codec == proto::PayloadCodec::F32;
  return wanted ? ShardParameters::Checksum::Compute : ShardParameters::Checksum::Skip;
}

}  // namespace

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
      send(scheduler_,
           proto::Hello{options_.name, options_.parameters, options_.endpoint, options_.settings});
      break;
    case proto::Joiner::Due::Heartbeat:
      send(scheduler_, proto::Heartbeat{}, {}, joiner_.lonely(now) ? now : Instant{});
      break;
    case proto::Joiner::Due::Nothing:
      break;
  }
  if (auto error = joiner_.overdue(now)) failure_ = std::move(error);
  if (auto error = joiner_.forsaken(now)) failure_ = std::move(error);
}

void ServerCore::on_message(Instant now, PeerId from, const Message& message) {
  if (from == scheduler_) {
    on_scheduler(now, message);
  } else if (message.cluster != options_.cluster) {
    refuse(from, RefusalCode::ClusterId, other_cluster(message, options_.cluster));
  } else if (std::holds_alternative<proto::Pull>(message.body)) {
    on_pull(from, message);
  } else if (std::holds_alternative<proto::Commit>(message.body)) {
    if (auto* member = find_member(from, message)) {
      joiner_.on_heard(now);
      on_commit(now, from, *member, message);
    }
  } else if (const auto* probe = std::get_if<proto::Probe>(&message.body)) {
    if (const auto* member = find_member(from, message)) on_probe(from, *member, *probe);
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
    on_refused(*refusal);
  }
}

// What this shard holds is of its own run. The next one's scheduler makes no use of it, and whoever
// restarts this server does.
void ServerCore::on_refused(const proto::Refusal& refusal) {
  const bool over = refusal.code == RefusalCode::NotMember;
  failure_ = Error{over ? ErrorCode::Gone : ErrorCode::Refused,
                   (over ? "scheduler: " : "scheduler refused this server: ") + refusal.message};
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
  const std::uint64_t count = welcome.range.count();
  const std::uint64_t chunk = options_.chunk_bytes / sizeof(float);
  if (options_.blank) {
    parameters_ = ShardParameters(count, chunk, options_.blank);
  } else {
    const std::vector<float> initial = initial_(welcome.range);
    RUBATO_CHECK(initial.size() == count, "initial parameters fill the range");
    parameters_ = ShardParameters(initial, chunk);
    if (options_.average) average_.emplace(initial, chunk);
    if (average_) kept_ = average_->parameters().snapshot();
    optimizer_ = Optimizer(options_.optimizer, count);
  }
  replies_ = ReplyEncoder(std::min(chunk, count), options_.blank != nullptr);
  joiner_.on_joined(now);
}

MemberState* ServerCore::find_member(PeerId from, const Message& message) {
  MemberState* const member = members_.find(WorkerId{message.sender.index});
  if (message.sender.role != Role::Worker || !member ||
      member->incarnation != message.incarnation) {
    refuse(from, RefusalCode::NotMember,
           fmt::format("{} (incarnation {:016x}) is not a member: join through the scheduler first",
                       to_string(message.sender), message.incarnation));
    return nullptr;
  }
  member->peer = from;
  return member;
}

void ServerCore::replace_members(Instant now, std::vector<proto::Member> wanted) {
  const auto id = [](const proto::Member& member) { return member.worker; };
  if (!std::ranges::is_sorted(wanted, {}, id)) std::ranges::stable_sort(wanted, {}, id);
  // All of them first: a round that one departure closes must not apply another leaver's commit.
  for (const auto worker : members_.remove_others(wanted)) act(now, gate_->on_leave(now, worker));
  for (const auto worker : members_.add_missing(wanted)) gate_->on_join(now, worker);
}

void ServerCore::on_members(Instant now, const proto::Members& list) {
  if (!id_) return;  // our Welcome is still under way; the scheduler repeats this list
  if (list.epoch > members_epoch_) {
    members_epoch_ = list.epoch;
    replace_members(now, list.members);
    act(now, gate_->on_phase(now, list.phase));
  }
  send(scheduler_, proto::MembersAck{members_epoch_});
}

void ServerCore::on_commit(Instant now, PeerId from, MemberState& member, const Message& message) {
  const auto& commit = std::get<proto::Commit>(message.body);
  if (commit.total != parameters_.size()) {
    refuse(from, RefusalCode::ModelSize,
           fmt::format("{} commits {} parameters, this shard holds {}: both sides need the same "
                       "[model]",
                       to_string(message.sender), commit.total, parameters_.size()));
    return;
  }
  if (commit.sequence <= member.answered) {
    on_repeated(from, member, commit);
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
    member.commit.begin(commit.sequence, commit.total);
    member.scale.reset();
  }
  const auto update = floats_of(commit, message.payload);
  if (!update) {
    refuse(from, RefusalCode::BadMessage,
           fmt::format("{}: {}", to_string(message.sender), update.error().message));
    return;
  }
  switch (member.commit.note(commit)) {
    case CommitAssembly::Added::Duplicate:
      on_repeated(from, member, commit);
      return;
    case CommitAssembly::Added::Overlap:
      refuse(from, RefusalCode::BadMessage,
             fmt::format("{} sent overlapping chunks of commit {} at element {}",
                         to_string(message.sender), commit.sequence, commit.offset));
      return;
    case CommitAssembly::Added::Fresh:
      break;
  }
  const auto finite = message.payload.finite();
  if (commit.began < restores_ || !(finite ? *finite : all_finite(*update))) member.commit.taint();
  member.reply.want({commit.reply_codec, commit.reply_keep},
                    commit.reply_based && !member.commit.refused());  // refused: anew, all of it
  if (gate_->streams()) {
    stream(from, member, message, *update);
  } else {
    hold(now, from, member, message);
  }
}

// The one place where a received payload becomes floats; a blank shard has no use for them.
Result<std::span<const float>> ServerCore::floats_of(const proto::Commit& commit,
                                                     const proto::Payload& payload) {
  if (options_.blank) return std::span<const float>();
  if (commit.codec == proto::PayloadCodec::F32) return payload.floats(scratch_);
  scratch_.resize(commit.count);
  RUBATO_TRY(proto::decompress(commit.codec, payload.bytes(), scratch_));
  return std::span<const float>(scratch_);
}

// Who joins or leaves while a commit arrives changes nothing for it.
const Optimizer::Scale& ServerCore::scale_of(MemberState& member, const proto::Commit& commit) {
  if (!member.scale)
    member.scale = optimizer_.scale(members_.size(), commit.weight, ++commits_begun_);
  return *member.scale;
}

void ServerCore::add(MemberState& member, const proto::Commit& chunk, std::span<const float> values,
                     const proto::Payload& payload) {
  if (average_) average_->follow(parameters_);
  if (chunk.elastic) {
    parameters_.move_towards(chunk.offset, values, static_cast<float>(chunk.weight));
  } else {
    parameters_.apply(optimizer_, chunk.offset, values, scale_of(member, chunk),
                      answer_checksum(member.reply, payload));
  }
  if (average_) average_->note(chunk.offset, chunk.count, version_);
  ++stats_.chunks_applied;
}

// The average is followed once the answer to its last change is on its way.
std::optional<proto::ToPeer> ServerCore::poll_send() {
  auto message = outbox_.poll();
  if (!message && average_) average_->follow(parameters_);
  return message;
}

void ServerCore::stream(PeerId from, MemberState& member, const Message& message,
                        std::span<const float> update) {
  const auto& commit = std::get<proto::Commit>(message.body);
  const bool refused = member.commit.refused();
  if (member.commit.complete()) {
    if (refused) {
      ++stats_.commits_refused;
    } else {
      ++version_;
      ++stats_.commits_applied;
    }
    member.answered = commit.sequence;
    member.answered_refused = refused;
    member.commit.end();
  }
  if (!refused) add(member, commit, update, message.payload);
  answer_chunk(from, commit, refused, &member);
}

void ServerCore::hold(Instant now, PeerId from, MemberState& member, const Message& message) {
  const auto& commit = std::get<proto::Commit>(message.body);
  member.commit.keep(commit, message.payload);
  if (!member.commit.complete()) {
    send(from, proto::ProbeReply{.sequence = commit.sequence, .missing_offsets = {}});
    return;
  }
  member.complete_at = now;
  act(now, gate_->on_commit(now, member.worker));
}

void ServerCore::act(Instant now, const sync::GateActions& actions) {
  if (actions.keep && average_) keep();
  if (actions.restore) restore(*actions.restore);
  if (actions.collect) {
    if (auto* member = members_.find(actions.collect->worker))
      collect(*member, actions.collect->weight);
  }
  if (actions.flush) flush();
  for (const auto worker : actions.apply)
    if (auto* member = members_.find(worker)) apply(*member);
  replies_.begin_same();
  for (const auto worker : actions.release)
    if (auto* member = members_.find(worker)) release(now, *member);
  replies_.end_same();
}

// It decoded when it arrived; one in shared memory may have been changed by its sender since. What
// of the commit still decodes is applied, as in a streamed one.
std::optional<std::span<const float>> ServerCore::kept_update(const MemberState& member,
                                                              const proto::Commit& chunk,
                                                              const proto::Payload& payload) {
  auto update = floats_of(chunk, payload);
  if (update) return *update;
  refuse(*member.peer, RefusalCode::BadMessage,
         fmt::format("worker {}: commit {} was changed after it was sent: {}", member.worker.value,
                     chunk.sequence, update.error().message));
  return std::nullopt;
}

void ServerCore::apply(MemberState& member) {
  if (member.commit.refused()) {
    ++stats_.commits_refused;
    return;
  }
  member.commit.for_each_chunk([&](const proto::Commit& chunk, const proto::Payload& payload) {
    if (const auto update = kept_update(member, chunk, payload))
      add(member, chunk, *update, payload);
  });
  ++version_;
  ++stats_.commits_applied;
}

void ServerCore::collect(MemberState& member, double weight) {
  if (member.commit.refused()) {
    ++stats_.commits_refused;
    return;
  }
  if (!options_.blank) collected_.resize(parameters_.size());
  member.commit.for_each_chunk([&](const proto::Commit& chunk, const proto::Payload& payload) {
    const auto update = kept_update(member, chunk, payload);
    if (!update) return;
    const auto by = static_cast<float>(weight * chunk.weight);
    const auto sum = std::span(collected_).subspan(options_.blank ? 0 : chunk.offset);
    for (std::size_t i = 0; i < update->size(); ++i) sum[i] += by * (*update)[i];
    ++stats_.chunks_applied;
  });
  collected_weight_ += weight;
  ++stats_.commits_applied;
}

// A mean needs no 1/m: its rate is that of one member.
void ServerCore::flush() {
  if (collected_weight_ > 0) {
    parameters_.apply(optimizer_, 0, collected_,
                      optimizer_.scale(1, 1 / collected_weight_, ++commits_begun_));
    ++version_;
  }
  collected_.assign(collected_.size(), 0);
  collected_weight_ = 0;
}

// Where nobody evaluates a low is one of the training loss: what the workers train at now,
// averaged, is kept. The first loss is lower than none, and the updates before it may have broken
// everything.
void ServerCore::keep() {
  if (!evaluated_.empty()) {
    kept_ = evaluated_;
  } else if (std::exchange(first_low_, false)) {
    return;
  } else {
    average_->follow(parameters_);
    kept_ = average_->parameters().snapshot();
  }
}

// Who began at what is given up says so in its commits, which are refused until it has these.
void ServerCore::restore(std::uint32_t number) {
  restores_ = number;
  if (kept_.empty()) return;
  parameters_.restore(kept_);
  average_->restore(kept_);
  optimizer_ = Optimizer(options_.optimizer, parameters_.size());
  commits_begun_ = 0;
}

void ServerCore::release(Instant now, MemberState& member) {
  member.answered = member.commit.sequence();
  member.answered_refused = member.commit.refused();
  member.commit.end();
  send_parameters(*member.peer, member.answered, now - member.complete_at, member.answered_refused,
                  &member);
}

}  // namespace rubato::server
