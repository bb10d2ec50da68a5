// What a shard answers: parameters, all or those of a chunk, and refusals.
#include <utility>

#include "base/rng.hpp"
#include "server/server_core.hpp"

namespace rubato::server {

using proto::Message;
using proto::PeerId;
using proto::RefusalCode;
using proto::Role;

// Applied already, or kept: nothing changes, but its sender may not have heard the answer.
void ServerCore::on_repeated(PeerId from, const MemberState& member, const proto::Commit& commit) {
  ++stats_.commits_repeated;
  const bool answered = commit.sequence == member.answered;
  if (commit.sequence < member.answered) return;  // two commits ago: nobody waits for it
  if (gate_->streams()) {
    answer_chunk(from, commit, answered ? member.answered_refused : member.commit.refused(),
                 nullptr);
  } else if (answered && commit.offset == 0) {  // once for all its chunks
    send_parameters(from, commit.sequence, Duration{}, member.answered_refused);
  }
}

void ServerCore::answer_chunk(PeerId to, const proto::Commit& commit, bool refused,
                              MemberState* member) {
  send_range(to, parameters_,
             {.sequence = commit.sequence,
              .version = version_,
              .offset = commit.offset,
              .count = commit.count,
              .total = commit.total,
              .held = {},
              .refused = refused,
              .restores = restores_},
             member);
}

void ServerCore::on_pull(PeerId from, const Message& message) {
  if (!id_) return;
  const auto& pull = std::get<proto::Pull>(message.body);
  bool refused = false;  // the commit of which this is what is missing of the answer
  if (message.sender.role != Role::Evaluator) {
    const auto* member = find_member(from, message);
    if (!member) return;
    refused = member->answered == pull.sequence && member->answered_refused;
  }
  const bool averaged = average_ && message.sender.role == Role::Evaluator;
  if (averaged) {
    average_->follow(parameters_);
    evaluated_ = average_->parameters().snapshot();
  }
  const auto& parameters = averaged ? average_->parameters() : parameters_;
  const auto all = whole(pull.sequence, Duration{}, refused);
  if (pull.offsets.empty()) send_range(from, parameters, all, nullptr);
  // Ascending, so that no question costs more than all of them.
  std::uint64_t next = 0;
  for (const auto offset : pull.offsets) {
    if (offset < next || offset >= all.total) continue;
    auto piece = all;
    piece.offset = offset;
    piece.count = parameters.piece(offset);
    send_range(from, parameters, piece, nullptr);
    next = offset + piece.count;
  }
}

// Small whatever it says, for it may be one of many answers on a slow link: who asked knows what
// has not come, and pulls just that.
void ServerCore::on_probe(PeerId from, const MemberState& member, const proto::Probe& probe) {
  proto::ProbeReply reply{
      .sequence = probe.sequence, .missing_offsets = {}, .number = probe.number};
  if (probe.sequence == member.answered) {
    reply.answered = true;
  } else if (member.commit.sequence() != probe.sequence) {
    reply.unknown = true;
  } else if (member.commit.complete()) {
    reply.held = true;
  } else {
    reply.missing_offsets = member.commit.missing_offsets();
    reply.unknown = reply.missing_offsets.empty();
  }
  send(from, std::move(reply));
}

void ServerCore::send_parameters(PeerId to, Sequence sequence, Duration held, bool refused,
                                 MemberState* member) {
  send_range(to, parameters_, whole(sequence, held, refused), member);
}

proto::Parameters ServerCore::whole(Sequence sequence, Duration held, bool refused) const {
  return {.sequence = sequence,
          .version = version_,
          .offset = 0,
          .count = parameters_.size(),
          .total = parameters_.size(),
          .held = held,
          .refused = refused,
          .restores = restores_};
}

// The one place where parameters become payloads.
void ServerCore::send_range(PeerId to, const ShardParameters& from, const proto::Parameters& reply,
                            MemberState* member) {
  const bool coded = member && member->reply.wanted.codec != proto::PayloadCodec::F32;
  from.for_each_piece(
      reply.offset, reply.count,
      [&](std::uint64_t offset, std::uint64_t count, proto::Payload payload) {
        proto::Parameters piece = reply;
        piece.offset = offset;
        piece.count = count;
        if (coded) {
          const auto seed = Rng(member->incarnation, piece.sequence, piece.offset).next();
          payload = replies_.encode(payload, parameters_.size(), member->reply, seed, piece);
        }
        send(to, piece, std::move(payload));
      });
}

void ServerCore::send(PeerId to, proto::Body body, proto::Payload payload, Instant sent) {
  outbox_.push({to, Message{.cluster = options_.cluster,
                            .sender = id_.value_or(proto::NodeId{Role::Server, 0}),
                            .incarnation = options_.incarnation,
                            .body = std::move(body),
                            .payload = std::move(payload),
                            .sent = sent}});
}

void ServerCore::on_bad_frame(PeerId from, const Error& error) {
  refuse(from, proto::refusal_code(error), error.message);
}

void ServerCore::refuse(PeerId to, RefusalCode code, std::string message) {
  ++stats_.messages_refused;
  send(to, proto::Refusal{code, std::move(message)});
}

}  // namespace rubato::server
