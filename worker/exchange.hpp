// worker/exchange.hpp - one pull or commit, there and back: which chunk goes next, in which codec,
// which servers are silent, what was lost and goes again, and the parameters that come back.
// It knows nothing of training and of commit rules.
// An elastic exchange uploads parameters instead of an update, and takes a mean of both sides
// (worker/elastic_exchange.hpp).
// Pure. `now` never decreases. Memory: the parameters, and the update while it is in flight.
// Threads: one owner. Errors: Corrupt for chunks that do not fit; Timeout for a silent server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/prefetch.hpp"
#include "base/result.hpp"
#include "base/shareable.hpp"
#include "base/time.hpp"
#include "worker/codec_choice.hpp"
#include "worker/commit_sender.hpp"
#include "worker/exchange_meter.hpp"
#include "worker/mail.hpp"
#include "worker/parameter_gather.hpp"
#include "worker/residual.hpp"
#include "worker/server_watch.hpp"
#include "worker/update_encoder.hpp"

namespace rubato::worker {

struct ExchangeOptions {
  CodecOptions codecs;
  std::uint64_t chunk_bytes = 0;
  ShardOrder order = ShardOrder::InTurns;
  bool elastic = false;
  bool exchange = true;  // as WorkerOptions::exchange
  bool blank = false;    // as WorkerOptions::blank
  std::shared_ptr<Residual> residual;
  proto::AveragedElements averaged = {};
  WatchTiming watch;
};

// What a commit uploads: U, or W of an elastic worker. Every parameter has a value; in a blank run
// one chunk stands for all of them; a packed update has payloads.
struct Update {
  std::shared_ptr<const Floats> values;
  bool finite = true;  // no NaN or infinity anywhere; else every shard discards its slice
  // `values` itself, if each answer may be written over the chunk that it answers. parameters() is
  // then in it until release(). Requires: not packed; the transport does not read a chunk once it
  // is answered.
  std::shared_ptr<Floats> room = nullptr;
  bool packed = false;  // as Exchange::packing() said
};

class Exchange {
 public:
  explicit Exchange(const ExchangeOptions& options);

  // --- with whom ---------------------------------------------------------------------------------
  // The updates from now on belong to this run, which is not the last one.
  void join_run(Incarnation run);
  // `round_trips`: of a question to each shard, where they are known.
  void connect(const proto::ShardMap& shards, const std::vector<Duration>& round_trips = {});
  // Gives up what is under way, and forgets the shards.
  void disconnect();
  // Nothing while not connected.
  const std::optional<proto::ShardMap>& shards() const { return shards_; }

  // --- there -------------------------------------------------------------------------------------
  // Requires for all: connected, and not active().
  void pull(Instant now, Mail& mail);
  // Chooses the codecs of the next commit. `between`: what lies between two commits.
  void choose_codecs(Duration between);
  // How a device that packs is to pack the next update, once its codecs are chosen. No runs: it
  // comes as float32, which the exchange compresses where that is wanted.
  train::Packing packing();
  struct Terms {
    std::uint64_t steps = 0;
    double weight = 1;
    std::uint32_t began = 0;  // Reply::restores of the parameters that it stands on
  };
  void commit(Instant now, const Terms& terms, Update update, Mail& mail);
  // All parameters, as the initial values of the model (proto::Commit::seeding). They travel as
  // float32. The reply has them, too.
  void seed(Instant now, std::uint32_t seeding, Update values, Mail& mail);
  // The next chunk of the update that may go, if any.
  std::optional<proto::ToNode> poll_send(const Mail& mail);

  // --- back --------------------------------------------------------------------------------------
  // True from pull() or commit() until all of the reply is here.
  bool active() const { return gather_.active(); }
  // Returns: true when `message` makes the reply complete. reply() and parameters() are then ready.
  [[nodiscard]] Result<bool> on_message(Instant now, std::uint32_t shard,
                                        const proto::Message& message, Mail& mail);
  struct Reply {
    Duration round_trip;
    Duration held;               // of the round trip, by the gate; 0 of a pull
    bool refused = false;        // a shard did not apply the commit
    bool dropped = false;        // a shard dropped it, as its sync model says
    std::uint32_t restores = 0;  // of the shards, the least of them
    // O_i: the round trip without the gate's part.
    Duration overhead() const { return round_trip - held; }
  };
  // The last one. Requires: not active().
  const Reply& reply() const { return reply_; }
  // How long the last commit blocked the worker, the gate's part not counted. Chunks that go by
  // need choose their credit by it.
  void on_blocked(Duration blocked);

  // How many parameters of the reply are here without a gap, from the first on.
  std::uint64_t arrived() const { return gather_.arrived(); }
  std::shared_ptr<const Floats> arriving() const { return gather_.room(); }
  std::span<const float> parameters() const { return mixed_.empty() ? gather_.values() : mixed_; }
  // Gives the vector of parameters() to the caller, who has loaded them. Null when the next reply
  // is made from it, or has no other room. Requires: not active().
  std::shared_ptr<Floats> release() { return lends_ && !packed_ ? gather_.release() : nullptr; }
  bool elastic() const { return elastic_; }

  // --- time --------------------------------------------------------------------------------------
  // Asks silent servers where the reply is. Timeout: one was silent for too long.
  [[nodiscard]] Result<void> on_wakeup(Instant now, Mail& mail);
  std::optional<Instant> poll_wakeup() const;
  // Whether this server has owed an answer for so long, and said nothing.
  bool silent_for(std::uint32_t shard, Duration time, Instant now) const {
    return active() && gather_.waiting_for(shard) && watch_.silence(shard, now) >= time;
  }
  // One of the servers that owe an answer is away, as far as ServerWatch can tell.
  bool waits_in_vain() const {
    for (std::uint32_t shard = 0; shard < watch_.size(); ++shard)
      if (active() && gather_.waiting_for(shard) && watch_.is_away(shard)) return true;
    return false;
  }
  // What it decided by itself: one line each.
  std::optional<std::string> poll_log() { return log_.poll(); }
  // As WorkerCore::prefetch().
  void prefetch() const { rubato::prefetch(this, &codecs_); }

 private:
  enum class Kind { Pull, Commit };

  void begin(Instant now, Kind kind, std::shared_ptr<Floats> room, Mail& mail);
  void complete(Instant now);
  void on_probe_reply(Instant now, std::uint32_t shard, const proto::ProbeReply& reply, Mail& mail);
  void pull_missing(Instant now, std::uint32_t shard, Mail& mail);
  void send_again(Instant now, std::uint32_t shard, const proto::ProbeReply& reply);
  proto::ToNode update_chunk(const CommitSender::Chunk& chunk, const Mail& mail);
  // "server 1 at tcp://10.0.0.1:5700: no answer to commit 2 for 120 s".
  std::string silence_line(std::uint32_t shard, Duration silence) const;

  // Every commit reads these.
  Kind kind_ = Kind::Pull;
  bool lost_ = false;  // a message of this pull or commit
  const bool elastic_;
  const bool blank_;
  const bool lends_;     // the update is room for its answers
  bool packed_ = false;  // the last update was
  Sequence sequence_ = 0;
  std::uint64_t round_ = 0;    // as proto::Commit::round
  std::uint32_t seeding_ = 0;  // as proto::Commit::seeding
  Terms terms_;                // of the commit under way
  Reply reply_;
  std::optional<proto::ShardMap> shards_;
  ParameterGather gather_;
  CommitSender sender_;
  UpdateEncoder update_;  // the one in flight, kept to send again
  ServerWatch watch_;
  ExchangeMeter meter_;
  std::vector<float> mixed_;  // what an elastic exchange leaves; empty: take the reply
  proto::Outbox<std::string> log_;
  // These are for joining and for choosing codecs.
  CodecChoice codecs_;
  ExchangeOptions options_;
};

}  // namespace rubato::worker
