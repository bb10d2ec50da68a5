// What a worker does about servers that say nothing: questions, what is lost sent or pulled again,
// and the end of its patience.
#include <fmt/format.h>

#include <limits>

#include "worker/worker_core.hpp"

namespace rubato::worker {

using proto::Role;

namespace {

constexpr Sequence kPing = std::numeric_limits<Sequence>::max();  // no commit: "unknown" at once

}  // namespace

void WorkerCore::watch_servers(Instant now) {
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard) {
    if (!gather_.waiting_for(shard)) continue;
    if (update_.active() && sender_.waits(shard)) {
      watch_.excuse(shard, now);
      continue;
    }
    for (auto due = watch_.poll(shard, now); due != ServerWatch::Due::Nothing;
         due = watch_.poll(shard, now)) {
      if (due == ServerWatch::Due::Probe) {
        probe(shard);
        continue;
      }
      std::string line = silence_line(shard, watch_.silence(shard, now));
      if (due == ServerWatch::Due::GiveUp) {
        failure_ = Error{ErrorCode::Timeout, std::move(line)};
        return;
      }
      log_.push(
          fmt::format("{}, waits for up to {:.0f} s", line, watch_.patience(shard).seconds()));
    }
  }
}

std::string WorkerCore::silence_line(std::uint32_t shard, Duration silence) const {
  return fmt::format("server {} at {}: no answer to {} {} for {:.0f} s", shard,
                     shards_->shards[shard].endpoint, update_.active() ? "commit" : "pull",
                     sequence_, silence.seconds());
}

void WorkerCore::probe(std::uint32_t shard) {
  sender_.on_asked(shard);
  send({Role::Server, shard}, proto::Probe{sequence_, watch_.number(shard)});
}

// A question that a server answers at once, with nothing: ahead of the bytes to come, it tells the
// time that no codec can save.
void WorkerCore::ping_servers() {
  if (!codecs_.active()) return;
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard)
    send({Role::Server, shard}, proto::Probe{kPing});
}

void WorkerCore::on_probe_reply(Instant now, std::uint32_t shard, const proto::ProbeReply& reply) {
  if (reply.sequence == kPing) codecs_.on_ping(now - sent_at_);
  if (reply.sequence != sequence_ || !gather_.waiting_for(shard)) return;
  if (reply.number == 0) {
    sender_.on_answer(shard);
    codecs_.on_acknowledged();
    return;
  }
  if (!watch_.on_answer(shard, reply.number)) return;
  if (reply.held) {
    sender_.on_held(shard);
  } else if (reply.answered || !update_.active()) {
    pull_missing(shard);
  } else {
    send_again(shard, reply);
  }
}

// All that the server sent before it answered the Probe has come or was lost. It does not know what
// it has answered to a pull.
void WorkerCore::pull_missing(std::uint32_t shard) {
  lost_ = true;
  send({Role::Server, shard},
       proto::Pull{sequence_, gather_.missing_offsets(shard, proto::kMissingOffsetsMax)});
}

// Of what is sent twice, one may still be on its way when the other is answered.
void WorkerCore::send_again(std::uint32_t shard, const proto::ProbeReply& reply) {
  const bool any = reply.unknown ? sender_.on_all_missing(shard)
                                 : sender_.on_missing(shard, reply.missing_offsets);
  if (!any) return;
  lost_ = true;
  gather_.leave_room();
}

}  // namespace rubato::worker
