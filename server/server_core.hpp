// server/server_core.hpp - the protocol of one shard: who may commit, which commits are applied and
// when, and what is answered. The parameters themselves are in server/shard.hpp.
// Pure: no socket, clock, thread, global or randomness; `now` never decreases. Threads: one owner.
// Exactly once: a commit is (worker, incarnation, sequence). A repeated commit is answered again,
// not applied again. Under a gate that streams, each chunk is applied and answered when it arrives.
// Under other gates a commit is held until it is whole (docs/decisions/0004).
// Errors: bad input from a peer is answered with a Refusal and counted.
// Memory: the shard, and the chunks in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "base/timers.hpp"
#include "proto/joiner.hpp"
#include "proto/node_log.hpp"
#include "proto/outbox.hpp"
#include "server/commit_values.hpp"
#include "server/durability.hpp"
#include "server/reply_encoder.hpp"
#include "server/shard.hpp"
#include "server/shard_members.hpp"
#include "server/snapshot_orders.hpp"
#include "server/storage.hpp"
#include "server/update_norms.hpp"
#include "sync/model.hpp"

namespace rubato::server {

struct ServerOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::string name;              // unique among the servers
  std::string endpoint;          // where workers reach it
  std::uint64_t parameters = 0;  // of the whole model
  ShardOptions shard;
  proto::AveragedElements averaged = {};  // of the whole model
  proto::JoinTiming timing;
  std::string settings = {};                  // of the cluster, one a line
  std::string public_key = {};                // by which workers know it; empty: no keys
  sync::CommitForm form = {};                 // what else is refused
  double update_limit = kUpdateLimitDefault;  // factor of UpdateNorms
  bool seeds = false;    // a worker tells the initial values (proto::Commit::seeding)
  bool journal = false;  // a commit is answered once it is on disk. Needs a storage with a journal
  // Its heartbeats tell how members stand, and whether the parameters are finite.
  bool reports = true;
  Duration tell_wait_after = Duration::from_seconds(5);  // of others for a member, before they do
};

// No initial value is larger, and no value of an averaged element.
inline constexpr float kInitialMax = 1e15f;

// The first parameters of a range; pure, called once.
using InitialParameters = std::function<std::vector<float>(ElementRange)>;

struct ServerStats {
  std::uint64_t commits_applied = 0;
  std::uint64_t chunks_applied = 0;
  std::uint64_t commits_refused = 0;
  proto::RefusedCounts refused = {};   // of these, by reason
  std::uint64_t commits_dropped = 0;   // answered, and by the gate's order not applied
  std::uint64_t commits_repeated = 0;  // answered again, not applied again
  std::uint64_t messages_refused = 0;
};

class ServerCore {
 public:
  // `scheduler`: the peer that assigns the range and sends the members. `storage`: of this server's
  // earlier lives; null: it keeps no snapshots.
  ServerCore(const ServerOptions& options, InitialParameters initial,
             std::unique_ptr<sync::Gate> gate, proto::PeerId scheduler,
             std::unique_ptr<Storage> storage = nullptr);

  void on_start(Instant now);
  // The process is to end. It stops once a snapshot of its end is on disk; at once where nothing
  // would be lost; and without one only if the scheduler is silent or the parameters are broken.
  void on_interrupt(Instant now);
  // A message from any peer. Unknown senders and impossible values are refused.
  void on_message(Instant now, proto::PeerId from, const proto::Message& message);
  // `from` sent bytes that did not decode: it is told so.
  void on_bad_frame(proto::PeerId from, const Error& error);
  void on_wakeup(Instant now);
  std::optional<proto::ToPeer> poll_send();
  std::optional<Instant> poll_wakeup() const {
    return earliest({joiner_.poll_wakeup(),
                     leaving_ && !stopped_ ? std::optional(leaving_->looks_at) : std::nullopt});
  }
  // What it did with snapshots, and what is wrong with them: one line each.
  std::optional<std::string> poll_log() { return log_.poll(); }
  std::optional<std::string> poll_warning() { return warnings_.poll(); }

  Version version() const { return shard_.version(); }
  // Returns: a copy.
  std::vector<float> parameters() const { return shard_.parameters().values(); }
  // What an evaluator would be given now.
  std::vector<float> evaluated_parameters() { return shard_.for_evaluator().values(); }
  const ServerStats& stats() const { return stats_; }
  const UpdateNorms& norms() const { return norms_; }
  // Commits of the run that this shard has seen to their end, in its earlier lives, too.
  std::uint64_t commits() const {
    return commits_before_ + stats_.commits_applied + stats_.commits_refused +
           stats_.commits_dropped;
  }
  // Known once the scheduler has assigned it.
  const std::optional<proto::NodeId>& id() const { return id_; }
  // The reason, once the scheduler has ended the run.
  const std::optional<std::string>& stopped() const { return stopped_; }
  // It was interrupted, and hears no worker while its last snapshot is written.
  bool writes_last() const { return leaving_ && leaving_->saves; }
  bool interrupted() const { return interrupted_; }  // that is why
  // Set when the shard cannot go on: it was refused, it hears no scheduler, or (Gone) its run ended
  // without its knowledge.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  // From the scheduler: range, members, end.
  void on_scheduler(Instant now, const proto::Message& message);
  void on_refused(const proto::Refusal& refusal);
  void on_stop(const proto::Stop& stop);
  void on_welcome(Instant now, Incarnation run, const proto::Welcome& welcome);
  [[nodiscard]] Result<void> begin_shard(Instant now, Incarnation run,
                                         const proto::Welcome& welcome);
  [[nodiscard]] Result<void> restore(Instant now, const proto::SnapshotInfo& info,
                                     ElementRange range);
  // The shard is that of a snapshot. Returns: sync::Phase::number that was carried out.
  [[nodiscard]] Result<std::uint32_t> load(const proto::SnapshotInfo& info, ElementRange range);
  // All shards go back together: to this snapshot; 0: to what is kept, or to initial parameters.
  [[nodiscard]] Result<void> set_back(Instant now, std::uint64_t snapshot);
  void begin_norms();
  void save(Instant now, const proto::Save& order);
  bool poll_saved();  // Returns: true at the end of a save
  void on_members(Instant now, const proto::Members& members);
  void replace_members(Instant now, std::vector<proto::Member> wanted);
  void await_order(Instant now);
  void leave();
  proto::Heartbeat state_of_snapshots() const;
  proto::Heartbeat heartbeat(Instant now);
  // How members stand that the scheduler should know of.
  std::vector<proto::Standing> standings(Instant now);
  // Looks at the parameters, where something speaks against them.
  void look_at_parameters();

  // The member that sent `message`. Returns: null after refusing a sender that is none.
  MemberState* find_member(proto::PeerId from, const proto::Message& message);

  // From workers and the evaluator.
  void on_commit(Instant now, proto::PeerId from, MemberState& member,
                 const proto::Message& message);
  void on_repeated(proto::PeerId from, const MemberState& member, const proto::Commit& commit);
  void on_pull(proto::PeerId from, const proto::Message& message);
  void on_probe(proto::PeerId from, const MemberState& member, const proto::Probe& probe);
  // Notes a chunk's size. Returns: why the commit is to be refused, if it is.
  std::optional<proto::RefusedFor> judge(MemberState& member, const proto::Commit& commit,
                                         float largest) const;
  // Applies and answers one chunk, whose payload holds `update`.
  void stream(proto::PeerId from, MemberState& member, const proto::Message& message,
              std::span<const float> update);
  // Keeps one chunk; the gate decides once the commit is whole.
  void hold(Instant now, proto::PeerId from, MemberState& member, const proto::Message& message);

  // Keeps one chunk of initial values. The shard begins with them once they are whole.
  void take_seed(Instant now, proto::PeerId from, MemberState& member,
                 const proto::Message& message);

  // What the gate decided about held commits.
  void act(Instant now, const sync::GateActions& actions);
  void apply(MemberState& member, double weight);  // weight: GateActions::weight
  void collect(MemberState& member, double weight);
  void remember(const sync::GateActions& actions);
  // Gives f each chunk of a whole commit that becomes no version by itself, and counts it; nothing
  // if it was refused.
  template <class F>
  void take_in(MemberState& member, F f);
  void release(Instant now, MemberState& member);

  // Averaged elements move towards the values of a commit: W <- W + part (value - W). These commits
  // are used together, one after the other, each with its weight. Their parts leave the weighted
  // mean of their values and, where fewer than all members are among them, of W.
  using Weighted = std::pair<MemberState*, double>;
  void share_averaged(std::span<const Weighted> commits);
  // One chunk of `member.commit`. Returns: false if it was changed after it was sent.
  bool mix_averaged(const MemberState& member, const proto::Commit& chunk,
                    const proto::Payload& payload);

  // A whole commit is applied, or refused. It is a new version if it is applied.
  void count_commit(MemberState& member);
  // A whole commit that becomes no version by itself. Returns: false if it is refused.
  bool count_used(MemberState& member);
  // Adds one chunk, whose payload decoded to `values`, to the shard. `weight`: its update counts
  // so many times.
  void add(MemberState& member, const proto::Commit& chunk, std::span<const float> values,
           const proto::Payload& payload, double weight);
  // Calls f(chunk, floats, payload) for each chunk of a held commit; refuses those that no longer
  // decode.
  template <class F>
  void for_each_held(MemberState& member, F f);
  // For a payload that its sender can still change; else nothing. Lifetime: as used at once.
  static std::optional<UpdateGuard> guard(const MemberState& member, const proto::Commit& commit,
                                          const proto::Payload& payload);
  void on_changed(MemberState& member, const proto::Commit& commit, const std::string& how);
  // The shard's, and the setbacks of the run: both say that a commit began before.
  std::uint32_t restores() const { return shard_.restores() + setbacks_; }

  // With a journal an answer waits until all that was done before is on disk. One that leaves a
  // commit without its last answer need not: its worker still waits for that one.
  enum class OnDisk { First, Meanwhile };

  // Replies. `member`: they take the form that it wants; null: f32.
  // The chunk of `commit` as it is now.
  void answer_chunk(proto::PeerId to, const proto::Commit& commit, bool refused,
                    MemberState* member, OnDisk on_disk);
  // A reply with all parameters, as its first message says it.
  proto::Parameters whole(Sequence sequence, bool refused) const;
  // A reply with all parameters, in answer to the member's last commit.
  proto::Parameters whole_answer(const MemberState& member) const;
  // Sends [reply.offset, reply.offset + reply.count) of `from`, a message a chunk.
  void send_range(proto::PeerId to, const ShardParameters& from, const proto::Parameters& reply,
                  MemberState* member, OnDisk on_disk = OnDisk::First);
  Durability::State now_of_shard() { return {shard_, commits(), run_, setbacks_}; }
  // `sent`: as Message::sent.
  void send(proto::PeerId to, proto::Body body, proto::Payload payload = {}, Instant sent = {},
            OnDisk on_disk = OnDisk::First);
  // `whose`: the incarnation that is refused, where the receiver may have had others.
  void refuse(proto::PeerId to, proto::RefusalCode code, std::string message,
              Incarnation whose = 0);

  ServerOptions options_;
  InitialParameters initial_;
  proto::PeerId scheduler_;
  proto::Joiner joiner_;
  std::optional<proto::NodeId> id_;

  Shard shard_;  // without parameters until the scheduler has assigned its range
  std::unique_ptr<sync::Gate> gate_;
  ShardMembers members_;
  std::uint64_t members_epoch_ = 0;
  std::uint32_t phase_ = 0;  // sync::Phase::number of the last list

  std::unique_ptr<Storage> storage_;  // may be null
  Storage::Inventory inventory_;      // as of the start
  Incarnation run_ = 0;
  ElementRange range_;
  std::uint64_t commits_before_ = 0;  // of earlier lives
  SnapshotOrders orders_;
  Durability durability_;

  std::uint32_t setbacks_ = 0;  // so often it has gone back with all shards
  std::uint32_t seeding_ = 0;   // so many workers were named to tell the initial values
  WorkerId seeder_;             // the last of them
  Incarnation evaluator_ = 0;   // the one that may pull; 0: none
  std::uint32_t seeded_ = 0;    // the number of the initial values that it has; 0: none
  UpdateNorms norms_;
  bool doubtful_ = false;  // a commit was refused for a NaN: the parameters may have one
  bool broken_ = false;    // they have
  CommitValues values_;
  ReplyEncoder replies_{0};
  ServerStats stats_;
  std::optional<std::string> stopped_;
  bool interrupted_ = false;
  struct Leaving {
    Instant since;
    Instant looks_at;    // whether the scheduler answers
    Instant says_at;     // what it waits for
    bool saves = false;  // a snapshot of the end is being written: no commit is taken any more
  };
  std::optional<Leaving> leaving_;  // it was interrupted, and waits for the order of a snapshot
  std::optional<Error> failure_;
  proto::Outbox<proto::ToPeer> outbox_;
  proto::NodeLog log_;
  proto::Outbox<std::string> warnings_;
};

}  // namespace rubato::server
