// proto/messages.hpp - every message of the protocol as a plain struct. Cores speak these; only the
// codec (proto/codec.hpp) knows FlatBuffers. docs/protocol.md tells who sends what, when.
// Units: counts and offsets are float32 elements of the sender's or receiver's shard; Durations ns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "base/packing.hpp"
#include "base/result.hpp"
#include "base/task.hpp"
#include "base/time.hpp"
#include "base/worker_figures.hpp"
#include "proto/long_text.hpp"
#include "proto/payload.hpp"
#include "proto/shard_map.hpp"
#include "sync/words.hpp"

namespace rubato::proto {

inline constexpr std::uint16_t kProtocolVersion = 9;
inline constexpr std::uint64_t kChunkBytesDefault = 1u << 20;
inline constexpr std::size_t kMissingOffsetsMax = 16 * 1024;  // of a ProbeReply or Pull

// What a peer may say of itself. The codec refuses more, so no sum of such numbers overflows.
inline constexpr std::uint64_t kNumberMax = std::uint64_t{1} << 53;  // steps, bytes, samples, ...
// Of many such numbers. The sum ends at the limit of 64 bits.
constexpr std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) {
  return a + b < a ? ~std::uint64_t{0} : a + b;
}
inline constexpr Duration kSpanMax{std::int64_t{1} << 57};  // 4.5 years
inline constexpr Instant kClockMax{std::int64_t{1} << 61};  // 73 years

enum class Role : std::uint8_t { Scheduler, Server, Worker, Evaluator };

// A node of one run: (Worker, 3), (Server, 0)... A server index is its ShardId.
struct NodeId {
  Role role = Role::Scheduler;
  std::uint32_t index = 0;
  auto operator<=>(const NodeId&) const = default;
};

const char* role_name(Role role);    // "worker"
std::string to_string(NodeId node);  // "worker 3", "server 0", "scheduler"

// A peer as one transport (or the virtual network) knows it: an opaque address to answer to.
using PeerId = std::uint64_t;

using rubato::PayloadCodec;

// --- joining: node -> scheduler, and its answers ---------------------------------------------

// worker, server -> scheduler, before Hello, where each worker has data of its own: what they are
// (a summary without samples, train/model/data_summary.hpp), or nothing from a server, which only
// needs to know the model's inputs. Sent again until answered.
struct Describe {
  std::string name;             // unique among the workers
  TextPart summary = {};        // total 0: none
  std::uint64_t schema_at = 0;  // bytes of the schema that it has
};

// scheduler -> worker, server: so many bytes of its summary are here, and the schema is not.
struct Described {
  std::uint64_t bytes = 0;
};

// scheduler -> worker, server: the input schema that all train with.
struct Schema {
  TextPart text;
};

// A copy of one shard that a server can go on from.
struct SnapshotInfo {
  Incarnation run = 0;        // the scheduler's incarnation, which identifies the run
  std::uint64_t number = 0;   // of the order (Save), from 1
  std::uint64_t commits = 0;  // of the run, in this copy
  std::uint64_t begin = 0;    // of its shard's range; in a Hello alone
  bool operator==(const SnapshotInfo&) const = default;
};
inline constexpr std::size_t kSnapshotsMax = 16;  // of a Hello
inline constexpr std::size_t kSnapshotsKept = 2;  // of a server's storage

// worker, server, evaluator -> scheduler: asks to join; sent again until answered.
struct Hello {
  std::string name;              // unique among the members of its role
  std::uint64_t parameters = 0;  // size of its model; must equal the cluster's
  std::string endpoint;          // servers only: where workers reach it
  // What all nodes of a cluster must have in common, "sync = bsp", one a line; must equal the
  // cluster's.
  std::string settings = {};
  std::vector<SnapshotInfo> snapshots = {};  // servers only: what its storage has
  // Workers only: a member that was told to join again (Notice). It keeps its number and its totals
  // under its new incarnation.
  bool again = false;
  // Servers only: by which workers will know it. It must be the key that the connection was proved
  // with (proto/identity.hpp). Empty: not encrypted.
  std::string public_key = {};
  // Workers only: it does not ask to join yet, but where the servers are. The Welcome then says so
  // too. `trouble`: why it cannot reach one of them, for people; empty: nothing known.
  bool looks = false;
  std::string trouble = {};
  // Workers with data of their own: files and samples that were not taken from it.
  std::uint64_t left_out = 0;
  // Servers only: it keeps snapshots. One of 0.2.0 never says so.
  bool keeps = false;
};

// scheduler -> node: accepted. A worker may not train before Start.
struct Welcome {
  NodeId you;
  std::uint64_t parameters = 0;
  ElementRange range;  // servers: the range to hold
  ShardMap shards;     // workers and evaluators: where to pull and commit
  // Servers: the snapshot of this run that the shard goes on from. 0: the initial parameters.
  std::uint64_t snapshot = 0;
  // Workers: the steps that earlier lives of this name have reported. A new process leaves out so
  // many mini-batches.
  std::uint64_t steps = 0;
  std::uint32_t setbacks = 0;  // servers: so often all shards have gone back by now
  bool looks = false;          // workers: the answer to such a Hello. `you` has no number.
};

enum class RefusalCode : std::uint8_t {
  ProtocolVersion,
  ClusterId,
  NameTaken,
  ModelSize,
  NotMember,
  BadMessage,
  ClusterFull,
  Stopped,
  OtherSettings,
  SetAside,  // a member whose commits were refused again and again
};

// No, and why: the node should report `message` and end.
struct Refusal {
  RefusalCode code = RefusalCode::BadMessage;
  std::string message;
  // Of a server's NotMember: the incarnation that it does not know. 0: not said.
  Incarnation whose = 0;
};

// scheduler -> worker, evaluator: every shard knows you; train. `seeding` other than 0: first tell
// the shards the initial values of a model of your own, under this number (Commit::seeding).
struct Start {
  std::uint32_t seeding = 0;
};

// worker -> scheduler: gone for good.
struct Leave {
  std::string reason;
};

// scheduler -> everyone: the run is over.
struct Stop {
  std::string reason;
  bool failed = false;  // what the run needs is gone, and no criterion holds: nobody exits with 0
};

// scheduler -> worker, server: one line for its log.
struct Notice {
  std::string text;
  // A shard has gone back to a snapshot: pull all parameters, and join again as a new incarnation.
  bool rejoin = false;
};

// --- membership: scheduler <-> server --------------------------------------------------------

struct Member {
  WorkerId worker;
  Incarnation incarnation = 0;
  bool operator==(const Member&) const = default;
};

// scheduler -> server: the whole list, each time; later epochs replace earlier ones.
struct Members {
  std::uint64_t epoch = 0;
  std::vector<Member> members;
  sync::Phase phase = {};
  // So often all shards have gone back together. A shard that has done so less often drops its
  // members, goes back to snapshot `back_to`, and then takes this list. 0: it keeps no snapshot,
  // and goes back to what its gate keeps, or to the initial parameters.
  std::uint32_t setbacks = 0;
  std::uint64_t back_to = 0;
  // The initial values come from this worker: the `seeding`-th time that one was named. 0: from
  // nobody.
  std::uint32_t seeding = 0;
  WorkerId seeder = {};
  // The one evaluator that may pull. 0: none.
  Incarnation evaluator = 0;
};

// server -> scheduler: this list is in force.
struct MembersAck {
  std::uint64_t epoch = 0;
  Instant clock{};  // of the server
};

// scheduler -> every server: keep a snapshot with this number now.
struct Save {
  std::uint64_t number = 0;
  // The newest snapshot that every server has on disk. It is not to be written over. 0: none.
  std::uint64_t keep = 0;
  // The receiver's clock, as the scheduler heard it last, and how long before this order that was.
  // 0: unknown.
  Instant clock{};
  Duration ago{};
};

// --- the parameter path: worker or evaluator <-> server --------------------------------------

// Why a shard did not apply a commit.
enum class RefusedFor : std::uint8_t {
  NotFinite,  // NaN or infinity
  TooLarge,   // far beyond the updates that this shard has applied
  WrongKind,  // elastic, or weighted, where the sync model's commits are not
  OutOfDate,  // begun before the last restore
};
inline constexpr std::size_t kRefusedReasons = 4;
using RefusedCounts = std::array<std::uint64_t, kRefusedReasons>;  // by RefusedFor

// worker, evaluator -> server: parameters, please; no commit.
struct Pull {
  Sequence sequence = 0;
  // The chunks that are missing of an earlier answer (by first element, ascending): the first
  // kMissingOffsetsMax of them. None: all parameters.
  std::vector<std::uint64_t> offsets = {};
  bool latest = false;  // evaluator: the parameters themselves, where there is an average of them
};

// worker -> server: one chunk of an update; payload = its elements in `codec`.
inline constexpr std::uint64_t kRoundMax = std::uint64_t{1} << 48;
struct Commit {
  Sequence sequence = 0;
  std::uint64_t offset = 0;  // first element, relative to the shard's range
  std::uint64_t count = 0;
  std::uint64_t total = 0;  // elements of the whole slice = the shard's range
  std::uint64_t steps = 0;  // local steps accumulated in this commit
  PayloadCodec codec = PayloadCodec::F32;
  bool discard = false;  // the update holds NaN or Inf somewhere: no shard may apply its slice
  // How the sender wants the reply. Int8 and TopK: the difference from what it holds.
  PayloadCodec reply_codec = PayloadCodec::F32;
  double reply_keep = 0.01;  // as Compression::keep; in (0, 1]
  bool reply_based = false;  // it holds exactly what the last reply noted
  double weight = 1;         // the server applies weight x update; sync::is_weight
  // The payload is the sender's parameters X, and the server moves its own towards them:
  // W <- W + weight (X - W), weight below 1.
  bool elastic = false;
  // Parameters::restores of those that it was made on, the least of them.
  std::uint32_t began = 0;
  // Of the first commit after a pull: the latest round that a shard named in the reply.
  std::uint64_t round = 0;
  // The payload is the initial values of the model, which the shard takes as they are. Only from
  // Members::seeder, and only under the number of Members. 0: it is an update.
  std::uint32_t seeding = 0;
  // So many of the `count` elements are averaged (proto/averaged_elements.hpp): they are left out
  // of what is in `codec`, and their values, no difference, follow as f32. Initial values and the
  // parameters of an elastic commit have all in their places: 0.
  std::uint64_t averaged = 0;
};

// server -> worker, evaluator: one chunk of the reply to a Pull or a Commit; its payload has the
// elements in one of the codecs.
struct Parameters {
  Sequence sequence = 0;
  Version version = 0;
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  std::uint64_t total = 0;
  Duration held;         // how long the gate held the commit: waiting, not communication
  bool refused = false;  // the commit was not applied: NaN or Inf, or it began before a restore
  // F32, F16, Bf16: the parameters. Others: what to add to those that the receiver holds.
  PayloadCodec codec = PayloadCodec::F32;
  bool noted = false;  // the server notes that the receiver holds this: base of the next difference
  std::uint32_t restores = 0;  // so often the shards have gone back to kept parameters
  std::uint64_t round = 0;     // of a pull: the round that is open (sync::Gate::round)
  std::uint64_t averaged = 0;  // of a difference: as Commit::averaged; parameters: 0
  bool dropped = false;        // the sync model did not use the commit, and it was not refused
};

// Int8 and TopK travel downwards as differences only.
inline bool is_difference(PayloadCodec codec) {
  return codec == PayloadCodec::Int8 || codec == PayloadCodec::TopK;
}

// worker -> server: nothing heard of this pull or commit; where does it stand? What was sent
// before, either way, and is not there when the answer is, was lost.
struct Probe {
  Sequence sequence = 0;
  std::uint32_t number = 0;  // of this question, for its answer; from 1 on
};

// server -> worker: the answer to a Probe; or, with no number and nothing else in it, a chunk of a
// commit is kept.
struct ProbeReply {
  Sequence sequence = 0;
  bool held = false;  // complete and waiting at the gate: keep waiting
  // Chunks to send again (by first element), if any: the first kMissingOffsetsMax of them; the next
  // probe asks for the rest.
  std::vector<std::uint64_t> missing_offsets;
  bool unknown = false;      // no chunk of it arrived, or only the short last one: send all
  bool answered = false;     // all of it: what has not come of the answer is to be pulled
  std::uint32_t number = 0;  // of the Probe
};

// --- control: worker, evaluator, server <-> scheduler ----------------------------------------

// worker -> scheduler after every reply and as heartbeat; totals since joining.
struct Progress : sync::WorkerProgress, WorkerFigures {
  double loss = 0;  // mean training loss of the steps since the last Progress
  std::uint64_t loss_samples = 0;
};

// How a member stands at a shard: others wait for it, or its commits are refused.
struct Standing {
  WorkerId worker;
  Incarnation incarnation = 0;
  Duration waited;  // commits of others are held, and this worker's is not here; 0: nobody waits
  Duration usual;   // from a reply to its next commit, as it arrives here; 0: it has made none
  std::uint32_t waiting = 0;   // the commits that are held
  std::uint32_t in_a_row = 0;  // refused, other than OutOfDate, since its last one that was not
  std::uint32_t others = 0;    // commits of others that were applied since the first of these
  RefusedCounts refused = {};
  bool operator==(const Standing&) const = default;
};
inline constexpr std::size_t kStandingsMax = 64;  // of a Heartbeat
// A server tells of a member of which so many commits in a row were refused.
inline constexpr std::uint32_t kRefusedInARow = 10;

// server, evaluator -> scheduler: still here. scheduler -> worker, evaluator: your Hello was heard,
// the servers are not there yet. scheduler -> whoever asked (Message::sent): what my clock says.
// worker -> server, which is to answer with a Heartbeat: are you there?
struct Heartbeat {
  Instant echo;             // the question's `sent`; 0: nobody asked
  Instant clock;            // of the scheduler when it answered; of a server when it sent this
  std::uint64_t saved = 0;  // servers: the newest snapshot of this run that is on disk; 0: none
  std::vector<Standing> standings = {};  // servers: of members that the scheduler should know of
  bool broken = false;                   // servers: the shard's parameters are not finite
  std::uint64_t saving = 0;              // servers: the snapshot that is being written; 0: none
  std::uint64_t commits = 0;             // servers: of the run, in the shard
  std::uint32_t seeded =
      0;  // servers: the number of the initial values that the shard has; 0: none
  // Servers: the next snapshot is not to wait for its time. The server ends once it has one, or its
  // journal needs one to go on from, before it can answer.
  bool wants_snapshot = false;
  // Worker -> server, and in its answer: so many bytes more, at most kFillMax, which tell whether
  // large packets get through. One of 0.2.0 answers without them.
  std::uint32_t fill = 0;
};
inline constexpr std::uint32_t kFillMax = 16 * 1024;  // several packets of any network

// scheduler -> worker: what the tuner wants.
using sync::Directive;

// evaluator, worker -> scheduler: one measurement on held-out data.
struct Evaluation {
  Duration age;  // how long ago the parameters were pulled
  double loss = 0;
  double accuracy = 0;  // or R^2 (base/task.hpp)
  Version version = 0;
  std::uint64_t samples = 0;  // workers: how many were held out; the scheduler weights by them
  // Workers, regression: mean squared error, which knows no weights, and mean and mean square of
  // their held-out targets, standardised. The R^2 of all samples together follows from these.
  double squared_error = 0;
  double target_mean = 0;
  double target_square = 0;
  ClassFigures classes = {};       // the evaluator's
  std::optional<double> gap = {};  // sync::EvaluationPoint::gap
};

// anybody, of any cluster -> scheduler: how does the run stand? It changes nothing.
struct AskStatus {
  std::uint32_t fill = 0;  // the answer is to have so many bytes or more; at most kFillMax
};

// scheduler -> who asked: the answer, JSON (scheduler/scheduler_status.cpp).
struct Status {
  std::string text;
};
inline constexpr std::size_t kStatusTextMax = 240 * 1024;

using Body = std::variant<Hello, Welcome, Refusal, Start, Leave, Stop, Members, MembersAck, Pull,
                          Commit, Parameters, Probe, ProbeReply, Progress, Heartbeat, Directive,
                          Evaluation, Save, Notice, Describe, Schema, AskStatus, Status, Described>;

// What every message carries beside its body.
struct Message {
  std::uint64_t cluster = 0;  // id of the cluster: cluster_id(name)
  NodeId sender;
  Incarnation incarnation = 0;  // the sender's
  Body body;
  Payload payload;  // Commit and Parameters only
  // To the scheduler, while profiling: the sender's clock, to be answered by a Heartbeat; 0: no
  // answer wanted.
  Instant sent{};
};

// XXH3 of the cluster's name.
std::uint64_t cluster_id(const std::string& name);

// What to tell the sender of bytes that did not decode.
RefusalCode refusal_code(const Error& error);

// The text of a ClusterId refusal: who, its id, ours, what to check.
std::string other_cluster(const Message& message, std::uint64_t ours);

// "training.batch = 32; this cluster has training.batch = 16": the first few lines of settings that
// differ. Empty: none.
std::string settings_that_differ(const std::string& theirs, const std::string& ours);

// The text of an OtherSettings refusal: who, and the first few of its lines that differ from ours.
// Ours are not told: the sender may be a stranger.
std::string other_settings(NodeId sender, const Hello& hello, const std::string& ours);

// "Commit", "Parameters", ... for logs and errors.
const char* body_name(const Body& body);

// One line for the run log and golden traces: "Commit seq=3 offset=0 count=128 steps=4".
std::string describe(const Body& body);

}  // namespace rubato::proto
