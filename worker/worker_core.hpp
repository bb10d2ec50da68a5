// worker/worker_core.hpp - one worker as a pure state machine: join, pull, train, commit when the
// rule says so, take the reply, never wait without a deadline.
// Pure: no socket, clock, thread, global or randomness; `now` never decreases. Threads: one owner.
// The host (a loop in real time, the virtual cluster otherwise) owns the trainer and does what
// next_action() says at every mini-batch end and after every event while the worker is idle.
// Errors: failure() when it cannot go on; a Timeout names the peer and the operation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "base/prefetch.hpp"
#include "base/result.hpp"
#include "base/shareable.hpp"
#include "base/time.hpp"
#include "proto/joiner.hpp"
#include "proto/outbox.hpp"
#include "sync/model.hpp"
#include "train/forward_layers.hpp"
#include "train/step_plan.hpp"
#include "worker/codec_choice.hpp"
#include "worker/commit_sender.hpp"
#include "worker/parameter_gather.hpp"
#include "worker/residual.hpp"
#include "worker/server_watch.hpp"
#include "worker/update_alignment.hpp"
#include "worker/update_encoder.hpp"

namespace rubato::worker {

struct WorkerOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::string name;
  std::string settings = {};  // as in Hello
  std::uint64_t parameters = 0;
  std::uint64_t chunk_bytes = proto::kChunkBytesDefault;
  sync::Overlap overlap = sync::Overlap::Never;
  bool alignment = false;  // measure how updates lie (worker/update_alignment.hpp)
  bool elastic = false;    // commits are the parameters W themselves, see on_commit
  bool exchange = true;    // after an elastic commit, keep what it leaves; false: take the reply
  double weight = 1;       // of commits until the tuner says; of elastic ones below 1
  // Steps begin while the reply to their commit arrives, as soon as the first of these layers is
  // here, and chunks go by need (worker/commit_sender.hpp). Empty: after all of it.
  std::vector<train::ForwardLayer> early_forward;
  proto::Compression up;
  proto::Compression down;
  bool auto_up = false;  // chosen while running (worker/codec_choice.hpp)
  bool auto_down = false;
  std::shared_ptr<Residual> residual;  // of an earlier life; null: none
  // Only the timing counts: nothing is held or sent but sizes, parameters() is empty, and every
  // update is one chunk of anything, which stands for all of them.
  bool blank = false;
  proto::JoinTiming timing;
  Duration probe_after = Duration::from_seconds(15);  // silence before asking a server
  // Silence before giving up on it, where none as long has ever ended (worker/server_watch.hpp). A
  // dead server is the scheduler's news within seconds, while there is a scheduler.
  Duration server_timeout = Duration::from_seconds(600);
};

// What a finished mini-batch was.
struct StepReport {
  Duration spent;       // any throttle included, waits for parameters not
  double loss_sum = 0;  // over the samples; NaN: not computed
  int samples = 0;
  double rate = 1;  // StepPlan::rate, by which it was made
};

// What a commit uploads: U, or W of an elastic worker; all parameters of it, or a chunk that stands
// for them (blank).
struct Update {
  std::shared_ptr<const Floats> values;
  bool finite = true;  // no NaN or infinity anywhere: else no shard may apply its slice
  // The same vector if it may be written over, each chunk by its answer: parameters() is then in
  // it, until release_parameters(). Requires: the transport does not read what has been answered.
  std::shared_ptr<Floats> room = nullptr;
};

class WorkerCore {
 public:
  WorkerCore(const WorkerOptions& options, std::unique_ptr<sync::CommitRule> rule);

  enum class Action {
    Wait,        // nothing to do until a message or a wake-up
    Train,       // run one mini-batch, then on_step()
    TrainEarly,  // on_early(), run one mini-batch on parameters that arrive meanwhile, on_step()
    Commit,      // take the accumulated update, then on_commit()
    Load,        // load parameters() under the update accumulated since, then on_loaded()
    Restart,     // drop that update, which stands on what is given up; then as Load
    Finish,      // the run is over
    Fail,        // see failure()
  };
  Action next_action() const;

  void on_start(Instant now) {
    joiner_.on_start(now);
    on_wakeup(now);
  }
  // `from`: who sent it, as the shard map says; a sender may not know its own number yet.
  void on_message(Instant now, proto::NodeId from, const proto::Message& message);
  void on_wakeup(Instant now);
  // Requires: next_action() was Train when the mini-batch began, or TrainEarly and all of its
  // parameters have arrived.
  void on_step(Instant now, const StepReport& report);
  // A mini-batch begins. Requires: next_action() is TrainEarly.
  void on_early(Instant now) {
    RUBATO_CHECK(next_action() == Action::TrainEarly, "the first layer has arrived");
    early_ = true;
    early_since_ = now;
  }
  // The step that began so is still wanted; else it must end without a trace: this worker lost its
  // membership, and all parameters will come anew, or the run is over.
  bool early() const { return early_ && !failure_ && !stopped_; }
  // How many parameters have arrived of the reply that it runs on, from the first on; and these.
  std::uint64_t arrived() const { return gather_.arrived(); }
  std::shared_ptr<const Floats> arriving() const { return gather_.room(); }
  const std::vector<train::ForwardLayer>& forward() const { return options_.early_forward; }
  // Requires: next_action() is Commit. An elastic worker uploads X = W_i, the servers move W by
  // d = weight (X - W) and answer with the W that results, from which parameters() is made: X - d.
  void on_commit(Instant now, Update update);
  // Requires: next_action() is Load or Restart, and it was done.
  void on_loaded(Instant now);
  // The user wants this worker to leave: a farewell, then Finish.
  void on_interrupt() { finish("interrupted"); }
  // What the links carried for this worker, both frames of every message.
  void on_bytes(std::uint64_t up, std::uint64_t down) {
    progress_.bytes_up += up;
    progress_.bytes_down += down;
  }

  // Control messages first, then chunks of the update, as credit allows.
  std::optional<proto::ToNode> poll_send();
  std::optional<Instant> poll_wakeup() const;
  // What the worker decided by itself: one line each.
  std::optional<std::string> poll_log() { return log_.poll(); }

  std::span<const float> parameters() const {
    return elastic_.empty() ? gather_.values() : elastic_;
  }
  // They were loaded, and the host has use for their memory. Returns: it; null when they are still
  // needed. parameters() is empty then. Requires: no reply is awaited.
  std::shared_ptr<Floats> release_parameters() {
    RUBATO_CHECK(!gather_.active() && !load_due_, "the parameters were loaded");
    return lends() ? gather_.release() : nullptr;
  }
  bool elastic() const { return options_.elastic; }
  train::StepPlan next_step() const { return {.batch = batch_, .rate = local_rate_}; }
  // Where the shards are, once welcome: the host connects to them.
  const std::optional<proto::ShardMap>& shards() const { return shards_; }
  const std::optional<proto::NodeId>& id() const { return id_; }
  const std::optional<std::string>& stopped() const { return stopped_; }
  const std::optional<Error>& failure() const { return failure_; }
  const proto::Progress& progress() const { return progress_; }
  std::uint64_t refused_commits() const { return refused_commits_; }
  // A hint to the processor that this worker is the next but one to be called: among thousands its
  // memory is far away.
  void prefetch() const {
    // What every step and every commit reads; the rest is for joining and for choosing codecs.
    rubato::prefetch(&state_, &codecs_);
    rubato::prefetch(&update_, this + 1);
  }
  // The message that reports progress() (also sent by itself after every reply).
  proto::Message progress_message();

 private:
  enum class State { Joining, Pulling, Ready };

  void on_scheduler(Instant now, const proto::Message& message);
  void on_server(Instant now, std::uint32_t shard, const proto::Message& message);
  void on_welcome(Incarnation run, const proto::Welcome& welcome);
  void join_run(Incarnation run);
  void on_go(Instant now);
  void on_directive(Instant now, const sync::Directive& directive);
  void take_share();
  void on_refusal(Instant now, proto::NodeId from, const proto::Refusal& refusal);
  void on_reply_complete(Instant now);
  void on_probe_reply(Instant now, std::uint32_t shard, const proto::ProbeReply& reply);
  void rejoin(Instant now);
  void measure_alignment(const Update& update);
  void finish(const std::string& reason);
  proto::ToNode update_chunk(const CommitSender::Chunk& chunk);
  // The update, as room for its answers. Not where differences may come down, which are added to
  // what came before, nor where the exchange needs both what was sent and what came.
  bool lends() const {
    return !options_.elastic && !options_.auto_down && !proto::is_difference(options_.down.codec);
  }
  void note_blocked() {
    if (auto line = sender_.on_commit_over(blocked_)) log_.push(std::move(*line));
  }
  // Not on what an exchange is still to be made of, nor on the first parameters, which start the
  // rule.
  bool may_begin_early() const {
    return !forward().empty() && !early_ && !overlaps_ && !options_.elastic &&
           state_ == State::Ready && gather_.arrived() >= forward().front().end;
  }
  void forget_steps() {
    steps_since_commit_ = 0;
    rates_since_commit_ = 0;
  }
  // What it trained since stands on parameters that nobody has, or no longer.
  bool restarts() const { return changed_run_ || gather_.refused() || gather_.restores() > began_; }
  void pull_missing(std::uint32_t shard);
  void send_again(std::uint32_t shard, const proto::ProbeReply& reply);
  void watch_servers(Instant now);
  void probe(std::uint32_t shard);
  // "server 1 at tcp://10.0.0.1:5700: no answer to commit 2 for 120 s".
  std::string silence_line(std::uint32_t shard, Duration silence) const;
  void ping_servers();
  void send(proto::NodeId to, proto::Body body) {
    outbox_.push({to, make_message(std::move(body))});
  }
  proto::Message make_message(proto::Body body, proto::Payload payload = {}) const;

  WorkerOptions options_;
  std::unique_ptr<sync::CommitRule> rule_;
  proto::Joiner joiner_;
  State state_ = State::Joining;
  std::optional<proto::NodeId> id_;
  std::optional<proto::ShardMap> shards_;
  std::optional<Incarnation> run_;  // the scheduler's life that it joined last
  bool changed_run_ = false;        // and has not yet loaded the parameters of
  std::optional<std::string> stopped_;
  std::optional<Error> failure_;

  ParameterGather gather_;
  CommitSender sender_;
  bool load_due_ = false;
  bool commit_due_ = false;
  bool overlaps_ = false;  // the commit in flight, training
  bool early_ = false;     // a step is under way that began before its parameters were here,
  Instant early_since_;    // then
  Duration blocked_;       // by the commit in flight, the gate's part not counted
  UpdateAlignment alignment_;
  double weight_ = 1;        // of the next commit, if its steps had a local rate of 1
  std::uint32_t batch_ = 0;  // of its steps; 0: as configured
  double local_rate_ = 1;    // of its steps, part of the learning rate
  struct Share {
    std::uint32_t batch = 0;
    double weight = 1;
  };
  std::optional<Share> next_share_;  // of the commits after the next
  bool time_anew_ = false;           // the mini-batch changed: so does its time
  std::vector<float> elastic_;       // what the exchange left of W_i; empty: take W
  Sequence sequence_ = 0;
  CodecChoice codecs_;
  Instant codecs_since_;  // when what comes between two commits began
  UpdateEncoder update_;  // in flight, kept to send again
  std::uint64_t update_steps_ = 0;
  double update_weight_ = 1;
  std::uint64_t steps_since_commit_ = 0;
  double rates_since_commit_ = 0;  // sum of their local rates
  std::uint32_t began_ = 0;        // restores() of the parameters that it runs on
  Instant sent_at_;
  bool lost_ = false;  // a message of the pull or commit sent then
  ServerWatch watch_;  // while a reply is awaited

  proto::Progress progress_;
  double loss_sum_ = 0;
  std::uint64_t loss_samples_ = 0;
  std::uint64_t refused_commits_ = 0;
  proto::Outbox<proto::ToNode> outbox_;
  proto::Outbox<std::string> log_;
};

}  // namespace rubato::worker
