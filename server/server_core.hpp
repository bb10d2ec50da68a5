// server/server_core.hpp - one shard as a pure state machine: commits in, parameters out, each
// commit applied exactly once.
// Pure: no socket, clock, thread, global or randomness; `now` never decreases. Threads: one owner.
// Exactly once: a commit is (worker, incarnation, sequence); a repeated one is answered, not
// applied again. Under a gate that streams, each chunk is applied and answered when it arrives;
// under the others a commit is kept until it is whole (docs/decisions/0004).
// Errors: bad input from a peer is answered with a Refusal and counted.
// Memory: the shard and the chunks in flight; with an average up to three more of the shard: that,
// as an evaluator was given it, and as it was kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/shareable.hpp"
#include "base/time.hpp"
#include "proto/joiner.hpp"
#include "proto/outbox.hpp"
#include "server/optimizer.hpp"
#include "server/parameter_average.hpp"
#include "server/reply_encoder.hpp"
#include "server/shard_members.hpp"
#include "server/shard_parameters.hpp"
#include "sync/model.hpp"

namespace rubato::server {

struct ServerOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::string name;              // unique among the servers
  std::string endpoint;          // where workers reach it
  std::uint64_t parameters = 0;  // of the whole model
  std::uint64_t chunk_bytes = proto::kChunkBytesDefault;
  OptimizerOptions optimizer;
  bool average = false;  // an evaluator is given the average (server/parameter_average.hpp)
  proto::JoinTiming timing;
  std::string settings = {};  // as in Hello
  // Only the timing counts: the shard holds no values, and the beginning of this stands for every
  // payload. At least a chunk. Null: a real shard.
  std::shared_ptr<const Floats> blank;
};

// The first parameters of a range; pure, called once.
using InitialParameters = std::function<std::vector<float>(ElementRange)>;

struct ServerStats {
  std::uint64_t commits_applied = 0;
  std::uint64_t chunks_applied = 0;
  std::uint64_t commits_refused = 0;   // held NaN or Inf, or began at what was given up
  std::uint64_t commits_repeated = 0;  // answered again, not applied again
  std::uint64_t messages_refused = 0;
};

class ServerCore {
 public:
  // `scheduler`: the peer that the shard asks for its range and obeys.
  ServerCore(const ServerOptions& options, InitialParameters initial,
             std::unique_ptr<sync::Gate> gate, proto::PeerId scheduler);

  void on_start(Instant now);
  // A message from any peer. Unknown senders and impossible values are refused.
  void on_message(Instant now, proto::PeerId from, const proto::Message& message);
  // Bytes that did not decode: told so, counted.
  void on_bad_frame(proto::PeerId from, const Error& error);
  void on_wakeup(Instant now);
  std::optional<proto::ToPeer> poll_send();
  std::optional<Instant> poll_wakeup() const { return joiner_.poll_wakeup(); }

  Version version() const { return version_; }
  // Returns: a copy.
  std::vector<float> parameters() const { return parameters_.values(); }
  const ServerStats& stats() const { return stats_; }
  // Known once the scheduler has assigned it.
  const std::optional<proto::NodeId>& id() const { return id_; }
  // The reason, once the scheduler has ended the run.
  const std::optional<std::string>& stopped() const { return stopped_; }
  // Set when the shard cannot go on: refused, no scheduler, or (Gone) its run is over unheard.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  void on_scheduler(Instant now, const proto::Message& message);
  void on_refused(const proto::Refusal& refusal);
  void on_welcome(Instant now, const proto::Welcome& welcome);
  void on_members(Instant now, const proto::Members& members);
  void replace_members(Instant now, std::vector<proto::Member> wanted);
  void on_commit(Instant now, proto::PeerId from, MemberState& member,
                 const proto::Message& message);
  void on_repeated(proto::PeerId from, const MemberState& member, const proto::Commit& commit);
  void on_pull(proto::PeerId from, const proto::Message& message);
  void on_probe(proto::PeerId from, const MemberState& member, const proto::Probe& probe);
  // Applies and answers one chunk, whose payload holds `update`.
  void stream(proto::PeerId from, MemberState& member, const proto::Message& message,
              std::span<const float> update);
  // The parameters of that chunk as they are, in the form that `member` wants, or as f32 if null.
  void answer_chunk(proto::PeerId to, const proto::Commit& commit, bool refused,
                    MemberState* member);
  // Keeps one chunk; the gate decides once the commit is whole.
  void hold(Instant now, proto::PeerId from, MemberState& member, const proto::Message& message);
  void act(Instant now, const sync::GateActions& actions);
  // How the commit under way is applied; numbers it with its first chunk.
  const Optimizer::Scale& scale_of(MemberState& member, const proto::Commit& commit);
  // Adds one chunk, whose payload decoded to `values`, to the parameters.
  void add(MemberState& member, const proto::Commit& chunk, std::span<const float> values,
           const proto::Payload& payload);
  void apply(MemberState& member);
  void collect(MemberState& member, double weight);
  void flush();
  void keep();
  // Makes the kept parameters the shard's again, for the `number`-th time.
  void restore(std::uint32_t number);
  void release(Instant now, MemberState& member);
  // A received payload as floats. Lifetime: of the result, until the next call.
  [[nodiscard]] Result<std::span<const float>> floats_of(const proto::Commit& commit,
                                                         const proto::Payload& payload);
  // That of a chunk that was kept, or nothing after refusing it.
  std::optional<std::span<const float>> kept_update(const MemberState& member,
                                                    const proto::Commit& chunk,
                                                    const proto::Payload& payload);
  // All the parameters as they are, in the form that `member` wants, or as f32 if null.
  void send_parameters(proto::PeerId to, Sequence sequence, Duration held, bool refused,
                       MemberState* member = nullptr);
  // What a reply with all of them says.
  proto::Parameters whole(Sequence sequence, Duration held, bool refused) const;
  // Those of `from`, in [reply.offset, reply.offset + reply.count), in a message a chunk.
  void send_range(proto::PeerId to, const ShardParameters& from, const proto::Parameters& reply,
                  MemberState* member);
  // `sent`: as Message::sent.
  void send(proto::PeerId to, proto::Body body, proto::Payload payload = {}, Instant sent = {});
  void refuse(proto::PeerId to, proto::RefusalCode code, std::string message);
  // The member that `message` is from, or null after refusing it.
  MemberState* find_member(proto::PeerId from, const proto::Message& message);

  ServerOptions options_;
  InitialParameters initial_;
  proto::Joiner joiner_;
  std::optional<proto::NodeId> id_;
  Optimizer optimizer_;
  ShardParameters parameters_;
  std::optional<ParameterAverage> average_;
  // Of the average: as an evaluator was given it last, and as it was kept. Empty: never.
  ShardParameters::Snapshot evaluated_, kept_;
  bool first_low_ = true;       // no order to keep has come yet
  std::uint32_t restores_ = 0;  // as last heard
  std::vector<float> scratch_;  // a received chunk, not aligned or compressed
  ReplyEncoder replies_{0};
  std::unique_ptr<sync::Gate> gate_;
  proto::PeerId scheduler_;
  ShardMembers members_;
  std::uint64_t members_epoch_ = 0;
  Version version_ = 0;
  std::uint64_t commits_begun_ = 0;  // numbers handed out
  std::vector<float> collected_;     // sum of weight x update, where the gate collects
  double collected_weight_ = 0;
  ServerStats stats_;
  std::optional<std::string> stopped_;
  std::optional<Error> failure_;
  proto::Outbox<proto::ToPeer> outbox_;
};

}  // namespace rubato::server
