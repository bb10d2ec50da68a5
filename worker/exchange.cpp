#include "worker/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/timers.hpp"
#include "worker/elastic_exchange.hpp"

namespace rubato::worker {
namespace {

using proto::Role;

// The sequence of a ping. No commit has it, so a server answers "unknown" at once.
constexpr Sequence kPing = proto::kNumberMax;

std::uint64_t chunk_elements(const ExchangeOptions& options) {
  return options.chunk_bytes / sizeof(float);
}

// Differences are added to the last parameters, and an elastic exchange needs both what was sent
// and what came. Neither leaves the update's memory free.
bool may_lend(const ExchangeOptions& options) {
  return !options.elastic && !options.codecs.auto_down &&
         !proto::is_difference(options.codecs.down.codec);
}

}  // namespace

Exchange::Exchange(const ExchangeOptions& options)
    : elastic_(options.elastic),
      blank_(options.blank),
      lends_(may_lend(options)),
      update_(options.codecs.up, options.residual, options.codecs.parameters,
              chunk_elements(options), options.blank,
              options.elastic ? proto::AveragedElements() : options.averaged),
      codecs_(options.codecs),
      options_(options) {}

void Exchange::join_run(Incarnation run) {
  const auto left = update_.join(run);
  if (left == Residual::Left::ThisRun) log_.push("sends what its last life has left of this run");
  if (left == Residual::Left::AnotherRun) log_.push("drops what another run has left unsent");
}

void Exchange::connect(const proto::ShardMap& shards, const std::vector<Duration>& round_trips) {
  shards_ = shards;
  gather_ = ParameterGather(shards, blank_, options_.averaged);
  sender_ = CommitSender(shards, chunk_elements(options_), options_.order);
  watch_ = ServerWatch(shards.shards.size(), options_.watch);
  const auto known = std::min(round_trips.size(), watch_.size());
  for (std::uint32_t shard = 0; shard < known; ++shard)
    watch_.on_round_trip(shard, round_trips[shard]);
}

void Exchange::disconnect() {
  shards_.reset();
  gather_ = {};
  sender_ = {};
  watch_ = {};
  update_.end();
  mixed_.clear();
}

// --- there ---------------------------------------------------------------------------------------

void Exchange::begin(Instant now, Kind kind, std::shared_ptr<Floats> room, Mail& mail) {
  RUBATO_CHECK(shards_ && !active(), "one exchange at a time, with servers that are known");
  kind_ = kind;
  lost_ = false;
  gather_.begin(++sequence_, std::move(room));
  watch_.begin(now);
  meter_.begin(now);
  if (!codecs_.active()) return;
  // A ping goes ahead of the bytes. Its time is what no codec can save.
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard)
    mail.send({Role::Server, shard}, proto::Probe{kPing});
}

void Exchange::pull(Instant now, Mail& mail) {
  codecs_.on_pull();
  round_ = 0;
  begin(now, Kind::Pull, nullptr, mail);
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard)
    mail.send({Role::Server, shard}, proto::Pull{sequence_});
}

void Exchange::choose_codecs(Duration between) {
  if (auto line = codecs_.on_commit(between)) log_.push(std::move(*line));
  update_.use(codecs_.up());
}

train::Packing Exchange::packing() {
  RUBATO_CHECK(shards_ && !active(), "one exchange at a time, with servers that are known");
  // Else the host needs the values, or keeps what is left of them.
  if (elastic_ || blank_ || options_.residual) return {};
  return update_.packing(*shards_, chunk_elements(options_));
}

void Exchange::commit(Instant now, const Terms& terms, Update update, Mail& mail) {
  RUBATO_CHECK(blank_ || update.packed || update.values->size() == options_.codecs.parameters,
               "the update covers every parameter");
  RUBATO_CHECK(!update.room || (update.room == update.values && !update.packed),
               "room is the update's own");
  terms_ = terms;
  packed_ = update.packed;
  seeding_ = 0;
  begin(now, Kind::Commit, lends_ ? std::move(update.room) : nullptr, mail);
  if (update.packed) {
    update_.begin_packed(std::move(update.values));
  } else {
    update_.begin(std::move(update.values), update.finite);
  }
  sender_.start();
}

void Exchange::seed(Instant now, std::uint32_t seeding, Update values, Mail& mail) {
  RUBATO_CHECK(values.values && values.values->size() == options_.codecs.parameters,
               "every parameter has an initial value");
  terms_ = {};
  packed_ = false;
  seeding_ = seeding;
  begin(now, Kind::Commit, nullptr, mail);
  update_.begin_plain(std::move(values.values));
  sender_.start();
}

std::optional<proto::ToNode> Exchange::poll_send(const Mail& mail) {
  while (const auto chunk = sender_.poll()) {
    if (!gather_.written_over(chunk->shard, chunk->offset)) return update_chunk(*chunk, mail);
    sender_.on_dropped(chunk->shard);  // to be sent again, but answered meanwhile
  }
  return std::nullopt;
}

proto::ToNode Exchange::update_chunk(const CommitSender::Chunk& chunk, const Mail& mail) {
  const auto range = shards_->shards[chunk.shard].range;
  auto [payload, codec, averaged] = update_.chunk(range.begin + chunk.offset, chunk.count);
  meter_.on_sent(payload.size());
  return {{Role::Server, chunk.shard},
          mail.sign(proto::Commit{.sequence = sequence_,
                                  .offset = chunk.offset,
                                  .count = chunk.count,
                                  .total = range.count(),
                                  .steps = terms_.steps,
                                  .codec = codec,
                                  .discard = !update_.finite(),
                                  .reply_codec = codecs_.down().codec,
                                  .reply_keep = codecs_.down().keep,
                                  .reply_based = gather_.based(chunk.shard),
                                  .weight = terms_.weight,
                                  .elastic = elastic_ && seeding_ == 0,
                                  .began = terms_.began,
                                  .round = round_,
                                  .seeding = seeding_,
                                  .averaged = averaged},
                    std::move(payload))};
}

// --- back ----------------------------------------------------------------------------------------

Result<bool> Exchange::on_message(Instant now, std::uint32_t shard, const proto::Message& message,
                                  Mail& mail) {
  if (!active() || shard >= watch_.size()) return false;
  if (gather_.waiting_for(shard)) watch_.on_heard(shard, now);
  if (const auto* reply = std::get_if<proto::ProbeReply>(&message.body)) {
    on_probe_reply(now, shard, *reply, mail);
    return false;
  }
  const auto* parameters = std::get_if<proto::Parameters>(&message.body);
  if (!parameters) return false;
  if (parameters->sequence == sequence_) {
    watch_.on_more(shard, now);
    sender_.on_answer(shard);
    meter_.on_received(message.payload.size());
    if (kind_ == Kind::Pull) round_ = std::max(round_, parameters->round);
  }
  RUBATO_TRY(gather_.add(shard, *parameters, message.payload));
  if (active()) return false;
  complete(now);
  return true;
}

void Exchange::complete(Instant now) {
  const Duration round_trip = meter_.since_begin(now);
  const bool pull = kind_ == Kind::Pull;
  reply_ = {.round_trip = round_trip,
            .held = pull ? Duration{} : std::min(gather_.held(), round_trip),
            .refused = gather_.refused(),
            .dropped = gather_.dropped(),
            .restores = gather_.restores()};
  if (update_.rebase(reply_.restores)) log_.push("drops what went unsent before a restore");
  if (pull) {
    if (!lost_) codecs_.on_pulled(meter_.end(round_trip, {}, watch_.size()));
    return;
  }
  sender_.stop();
  round_ = 0;
  mixed_.clear();
  if (elastic_ && options_.exchange && !reply_.refused && seeding_ == 0)
    elastic_exchange(update_.values(), gather_.values(), terms_.weight, mixed_);
  if (reply_.refused && update_.finite()) update_.drop_residual();
  update_.end();
  if (!lost_ && seeding_ == 0)
    codecs_.on_reply(meter_.end(reply_.overhead(), reply_.held, watch_.size()));
}

void Exchange::on_blocked(Duration blocked) {
  if (auto line = sender_.on_commit_over(blocked)) log_.push(std::move(*line));
}

void Exchange::on_probe_reply(Instant now, std::uint32_t shard, const proto::ProbeReply& reply,
                              Mail& mail) {
  if (reply.sequence == kPing) meter_.on_ping(now);
  if (reply.sequence != sequence_ || !gather_.waiting_for(shard)) return;
  if (reply.number == 0) {
    watch_.on_more(shard, now);
    sender_.on_answer(shard);
    meter_.on_acknowledged();
    return;
  }
  if (!watch_.on_answer(shard, reply.number, now)) return;
  if (reply.held) {
    sender_.on_held(shard);
  } else if (reply.answered || kind_ == Kind::Pull) {
    pull_missing(now, shard, mail);  // a server does not know what it has answered to a pull
  } else {
    send_again(now, shard, reply);
  }
}

// All chunks that the server sent before it answered the Probe have come, or were lost.
void Exchange::pull_missing(Instant now, std::uint32_t shard, Mail& mail) {
  lost_ = true;
  watch_.on_lost(shard, now);
  mail.send({Role::Server, shard},
            proto::Pull{sequence_, gather_.missing_offsets(shard, proto::kMissingOffsetsMax)});
}

void Exchange::send_again(Instant now, std::uint32_t shard, const proto::ProbeReply& reply) {
  const bool any = reply.unknown ? sender_.on_all_missing(shard)
                                 : sender_.on_missing(shard, reply.missing_offsets);
  if (!any) return;
  lost_ = true;
  watch_.on_lost(shard, now);
  // A chunk that is sent twice may still be on its way when its first answer comes.
  gather_.leave_room();
}

// --- time ----------------------------------------------------------------------------------------

Result<void> Exchange::on_wakeup(Instant now, Mail& mail) {
  if (!active()) return {};
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard) {
    if (!gather_.waiting_for(shard)) continue;
    if (kind_ == Kind::Commit && sender_.waits(shard)) {
      watch_.excuse(shard, now);
      continue;
    }
    for (auto due = watch_.poll(shard, now); due != ServerWatch::Due::Nothing;
         due = watch_.poll(shard, now)) {
      if (due == ServerWatch::Due::Probe) {
        sender_.on_asked(shard);
        mail.send({Role::Server, shard}, proto::Probe{sequence_, watch_.number(shard)});
        continue;
      }
      std::string line = silence_line(shard, watch_.silence(shard, now));
      if (due == ServerWatch::Due::GiveUp) return fail(ErrorCode::Timeout, std::move(line));
      log_.push(
          fmt::format("{}, waits for up to {:.0f} s", line, watch_.patience(shard).seconds()));
    }
  }
  return {};
}

std::optional<Instant> Exchange::poll_wakeup() const {
  std::optional<Instant> next;
  if (!active()) return next;
  for (std::uint32_t shard = 0; shard < watch_.size(); ++shard) {
    if (!gather_.waiting_for(shard)) continue;
    next = earliest({next, watch_.due(shard)});
  }
  return next;
}

std::string Exchange::silence_line(std::uint32_t shard, Duration silence) const {
  return fmt::format("server {} at {}: no answer to {} {} for {:.0f} s", shard,
                     shards_->shards[shard].endpoint, kind_ == Kind::Commit ? "commit" : "pull",
                     sequence_, silence.seconds());
}

}  // namespace rubato::worker
