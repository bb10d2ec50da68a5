// worker/worker_core.hpp - one worker as a pure state machine: join, pull, train, commit when the
// rule says so, take the reply. It never waits without a deadline.
// Membership (worker/membership.hpp) and exchange (worker/exchange.hpp) are machines of their own.
// This one keeps the commit rule, the steps, the books and the directives. docs/architecture.md
// draws its states.
// The host (a loop in real time, the virtual cluster otherwise) owns the trainer. It does what
// next_action() says after every mini-batch, and after every event while the worker is idle.
// Pure: no socket, clock, thread, file, global or randomness; `now` never decreases. Threads: one
// owner. Errors: failure() when it cannot go on; a Timeout names the peer and the operation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "base/prefetch.hpp"
#include "base/result.hpp"
#include "base/shareable.hpp"
#include "base/time.hpp"
#include "proto/node_log.hpp"
#include "sync/model.hpp"
#include "train/model/forward_layers.hpp"
#include "train/step_plan.hpp"
#include "worker/exchange.hpp"
#include "worker/membership.hpp"
#include "worker/update_alignment.hpp"

namespace rubato::worker {

struct WorkerOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::string name;
  std::string settings = {};   // of the cluster, one a line
  std::uint64_t left_out = 0;  // files and samples of its own data that it does not take
  std::uint64_t parameters = 0;
  std::uint32_t batch = 1;  // samples of a step, unless a directive says otherwise
  std::uint64_t chunk_bytes = proto::kChunkBytesDefault;
  sync::Overlap overlap = sync::Overlap::Never;
  bool alignment = false;  // measure how updates lie (worker/update_alignment.hpp)
  bool elastic = false;    // commits carry the parameters W themselves, see on_commit
  bool seeds = false;      // may be asked for the initial values of the model
  bool exchange = true;    // after an elastic commit, keep what it leaves; false: take the reply
  double weight = 1;       // of commits until a directive says; of elastic ones below 1
  // With these layers a step begins while the reply to its commit arrives, as soon as the first of
  // them is here, and chunks go by need (worker/commit_sender.hpp). Empty: after the whole reply.
  std::vector<train::ForwardLayer> early_forward;
  proto::Compression up;
  proto::Compression down;
  bool auto_up = false;  // chosen while running (worker/codec_choice.hpp)
  bool auto_down = false;
  std::shared_ptr<Residual> residual;     // of an earlier life; null: none
  proto::AveragedElements averaged = {};  // of an own model
  // Only the timing counts. The worker holds and sends sizes alone, and parameters() is empty. Each
  // update is one chunk of any values; it stands for all chunks.
  bool blank = false;
  // forsaken_after: without a word of the scheduler; on virtual time nobody asks it for one.
  proto::JoinTiming timing = {.forsaken_after = Duration::from_seconds(3e9)};
  Duration probe_after = Duration::from_seconds(15);  // silence before asking a server
  // Silence before giving up on a server; longer where longer ones have ended
  // (worker/server_watch.hpp). The scheduler reports a dead server within seconds.
  Duration server_timeout = Duration::from_seconds(600);
  bool looks = false;  // each time before it joins (worker/server_check.hpp), for as long as that
};

// What a finished mini-batch was.
struct StepReport {
  Duration spent;       // any throttle included, waits for parameters not
  double loss_sum = 0;  // over the samples; NaN: not computed
  int samples = 0;      // whose loss is known now, perhaps of earlier mini-batches
  double rate = 1;      // the StepPlan::rate of this step
  Duration late = {};   // how much longer than on the device they stand for all steps took
};

class WorkerCore {
 public:
  WorkerCore(const WorkerOptions& options, std::unique_ptr<sync::CommitRule> rule);

  enum class Action {
    Wait,        // nothing to do until a message or a wake-up
    Train,       // run one mini-batch, then on_step()
    TrainEarly,  // on_early(), run one mini-batch on parameters that arrive meanwhile, on_step()
    Commit,      // take the accumulated update, then on_commit()
    Seed,        // take the model's initial values, then on_seed()
    Load,        // load parameters() under the update accumulated since, then on_loaded()
    Restart,     // drop that update, which stands on parameters that are given up; then as Load
    Finish,      // the run is over
    Fail,        // see failure()
  };
  Action next_action() const;

  void on_start(Instant now) {
    membership_.on_start(now);
    on_wakeup(now);
  }
  // `from`: who sent it, as the shard map says; a sender may not know its own number yet.
  void on_message(Instant now, proto::NodeId from, const proto::Message& message);
  void on_wakeup(Instant now);
  // Requires: next_action() was Train when the mini-batch began, or TrainEarly and all of its
  // parameters have arrived. A step that began before a rejoin, or ends after the run, is not
  // counted.
  void on_step(Instant now, const StepReport& report);
  // A mini-batch begins. Requires: next_action() is TrainEarly.
  void on_early(Instant now) {
    move_to(State::TrainingEarly);
    early_since_ = now;
  }
  // True while the step that began so is wanted. Else it must end without a trace: the run is over,
  // or this worker lost its membership and all parameters will come anew.
  bool early() const { return state_ == State::TrainingEarly || state_ == State::EndingEarly; }
  // How many parameters have arrived of the reply that the early step runs on, from the first on;
  // and their vector.
  std::uint64_t arrived() const { return exchange_.arrived(); }
  std::shared_ptr<const Floats> arriving() const { return exchange_.arriving(); }
  const std::vector<train::ForwardLayer>& forward() const { return forward_; }
  // The update is on its way from the device, and the worker trains on; on_commit() follows. False:
  // it is to wait for the update. Requires: next_action() is Commit.
  bool may_take_beside_steps() const { return !exchange_.elastic() && overlaps_next(); }
  void on_taking(Instant now);
  // How a device of its own memory is to pack the update; Update::packed says that it did. The
  // steps from now on belong to the commit after this one. Lifetime: until on_commit(). Requires:
  // next_action() is Commit.
  train::Packing packing(Instant now);
  // The parameters are on their way to the device, and the worker trains on; on_staged() follows,
  // and then next_action() is Load again. False: the worker waits. Requires: next_action() is Load.
  bool may_stage_beside_steps() const { return state_ == State::Loading && overlapped_; }
  void on_staging() { move_to(State::Staging); }
  void on_staged() { move_to(State::Loading); }
  // Requires: next_action() is Commit, or on_taking() was called. An elastic worker uploads X =
  // W_i, the servers move W by d = weight (X - W) and answer with the W that results; parameters()
  // becomes X - d.
  void on_commit(Instant now, Update update);
  // Requires: next_action() is Load or Restart, and it was done.
  void on_loaded(Instant now);
  // The worker measured the parameters that were loaded at `loaded` on samples that it holds out.
  // `measured`: all but its age.
  void on_evaluated(Instant now, Instant loaded, proto::Evaluation measured);
  // The initial values of the whole model. Requires: next_action() is Seed.
  void on_seed(Instant now, Update values);
  // The user wants this worker to leave: a farewell that says why, then Finish.
  void on_interrupt(Instant, const std::string& why = "interrupted") { finish(why); }
  // What the links carried for this worker, both frames of every message.
  void on_bytes(std::uint64_t up, std::uint64_t down) {
    progress_.bytes_up += up;
    progress_.bytes_down += down;
  }

  // Control messages first, then chunks of the update, as credit allows.
  std::optional<proto::ToNode> poll_send();
  std::optional<Instant> poll_wakeup() const;
  // What the worker decided by itself: one line each.
  std::optional<std::string> poll_log() {
    if (auto line = log_.poll()) return line;
    return exchange_.poll_log();
  }

  std::span<const float> parameters() const { return exchange_.parameters(); }
  // The host has loaded the parameters and can use their memory. Returns: that memory; null when
  // they are still needed. parameters() is empty then. Requires: no reply is awaited.
  std::shared_ptr<Floats> release_parameters() {
    RUBATO_CHECK(!exchange_.active() && !load_due(), "the parameters were loaded");
    return exchange_.release();
  }
  bool elastic() const { return exchange_.elastic(); }
  train::StepPlan next_step() const { return {.batch = share_.batch, .rate = told_.local_rate}; }
  // Mini-batches to leave out before the first: earlier processes of this name have made them.
  std::uint64_t earlier_steps() const { return membership_.earlier_steps(); }
  // Where the shards are, once it is known: the host connects to them.
  const std::optional<proto::ShardMap>& shards() const {
    const ServerCheck* const check = membership_.check();
    return check ? check->shards() : exchange_.shards();
  }
  // Why a server that is not heard is missed.
  enum class Missed {
    Joining,  // this worker joins when the server has answered
    Large,    // as Joining: it has answered what is short, and not what is long
    Awaited,  // it owes an answer, and has been silent for kServerSilence
    Alone,  // the scheduler has been silent for kSchedulerSilence: nobody else says how servers are
  };
  static constexpr Duration kServerSilence = Duration::from_seconds(3);
  // A scheduler that is there speaks every 6 s.
  static constexpr Duration kSchedulerSilence = Duration::from_ms(6'500);
  // The servers that are not heard.
  std::vector<std::pair<std::uint32_t, Missed>> silent_servers(Instant now) const;
  // Why one of these is not reached.
  void on_trouble(std::string text) {
    if (auto* const check = membership_.check())
      check->on_trouble(std::move(text), membership_.mail());
  }
  const std::optional<proto::NodeId>& id() const { return membership_.id(); }
  const std::optional<std::string>& stopped() const { return stopped_; }
  const std::optional<Error>& failure() const { return failure_; }
  const proto::Progress& progress() const { return progress_; }
  std::uint64_t refused_commits() const { return refused_commits_; }
  // A hint to the processor: this worker is called soon. Among thousands its memory is far away.
  void prefetch() const {
    // What every step and every commit reads, so neither names nor the choice of codecs.
    rubato::prefetch(&membership_, &exchange_);
    exchange_.prefetch();
  }
  // The message that reports progress() (also sent by itself after every reply).
  proto::Message progress_message() { return membership_.mail().sign(take_progress()); }

 private:
  // What the worker does. move_to() alone changes it, and knows which state may follow which.
  enum class State : std::uint8_t {
    Joining,          // Hello until Welcome and Start
    SeedDue,          // started, and the shards want the initial values of this worker
    Seeding,          // they are on their way; then Joining goes on
    Pulling,          // the first parameters of this membership are on their way
    LoadingFirst,     // they are here; the host loads them
    RestartingFirst,  // they are here; the host drops its earlier update, then loads
    // From here on the commit rule runs.
    Training,
    CommitDue,       // the rule asked for a commit; the host takes the update
    Taking,          // the update leaves the device, and the worker trains on
    Committing,      // the commit is in flight, and the worker waits for the reply
    Overlapping,     // the commit is in flight, and the worker trains on
    BeginningEarly,  // the first layer of the reply is here; the host may begin a step
    TrainingEarly,   // a step runs while the rest of the reply arrives
    EndingEarly,     // the step still runs; all of the reply is here
    Staging,         // the reply is here and comes to the device, and the worker trains on
    Loading,         // the reply is here; the host loads it
    Restarting,      // the reply is here; the host drops its update since the commit, then loads
    Finished,
    Failed,
  };
  static bool may_follow(State from, State to);
  void move_to(State next);
  // Trains while a commit, or a copy for it, is under way.
  bool trains_beside() const {
    return state_ == State::Taking || state_ == State::Overlapping || state_ == State::Staging;
  }
  bool over() const { return state_ == State::Finished || state_ == State::Failed; }
  bool rule_runs() const { return state_ >= State::Training && !over(); }
  bool load_due() const { return next_action() == Action::Load || restart_due(); }
  bool restart_due() const { return next_action() == Action::Restart; }

  void fail_with(Error error);
  void finish(const std::string& reason);
  void rejoin(Instant now);
  void forget_progress() {
    progress_ = {};
    loss_sum_ = 0;
    loss_samples_ = 0;
  }
  void pull_again(Instant now);
  void leave_shards();
  void on_stop(const proto::Stop& stop);
  void on_scheduler(Instant now, const proto::Message& message);
  void on_server(Instant now, std::uint32_t shard, const proto::Message& message);
  void on_directive(Instant now, const sync::Directive& directive);
  void take_share();
  bool overlaps_next() const;
  void train_on(Instant now);
  void cut(Instant now);
  void on_start_told(Instant now, const proto::Start& start);
  void on_reply(Instant now);
  void on_commit_answered(Instant now, const Exchange::Reply& reply);
  bool may_begin_early() const {
    return !forward_.empty() && !elastic() && arrived() >= forward_.front().end;
  }
  proto::Progress take_progress();

  // Fixed.
  std::unique_ptr<sync::CommitRule> rule_;
  const sync::Overlap overlap_;
  const double first_weight_;
  const std::uint32_t batch_;  // of steps, unless a directive says otherwise
  const std::vector<train::ForwardLayer> forward_;
  std::unique_ptr<UpdateAlignment> alignment_;  // null: not measured

  Membership membership_;
  State state_ = State::Joining;
  // Facts beside the state: each holds in several states, or is needed after its state is left.
  bool commit_asked_ = false;  // the rule's last answer; it may ask while a commit is in flight
  bool overlapped_ = false;    // the last commit: the worker trained while it was in flight
  bool time_anew_ = false;     // the mini-batch changed: so does its time
  std::optional<std::string> stopped_;  // why Finished
  std::optional<Error> failure_;        // why Failed

  // The parameters that the worker trains from: of which run, after how many restores.
  struct Ground {
    std::optional<Incarnation> run;
    std::uint32_t restores = 0;
  };
  Ground ground_;
  struct Share {
    std::uint32_t batch = 0;  // of a step; 0: as configured
    double weight = 1;        // of a commit, if its steps had a local rate of 1
  };
  Share share_;                      // of the next commit
  std::optional<Share> next_share_;  // of the commits after the next
  // By directives.
  struct Told {
    double local_rate = 1;  // of steps, part of the learning rate
    double quick_steps = sync::kQuickSteps;
  };
  Told told_;
  struct Made {
    std::uint64_t steps = 0;
    double rates = 0;  // sum of their local rates
    std::uint64_t samples = 0;
  };
  Made made_;  // since the last commit
  // What belongs to the next commit, from its cut on.
  struct Cut {
    Made made;
    double weight = 1;
    bool overlapped = false;  // the commit before
  };
  std::optional<Cut> cut_;               // until on_commit()
  Instant committed_at_;                 // the last time
  std::uint64_t committed_samples_ = 0;  // of the last commit
  Instant trained_since_;                // when what comes between two commits began
  Instant early_since_;                  // when the early step began
  Duration blocked_;                     // by the last commit, the gate's part not counted
  std::optional<proto::NodeId> number_;  // to be kept by pull_again()
  const bool seeds_;
  std::uint32_t seeding_ = 0;  // the last that this worker was asked for
  bool start_told_ = false;    // while its initial values were on their way
  proto::NodeLog log_;

  proto::Progress progress_;
  double loss_sum_ = 0;  // since the last report
  std::uint64_t loss_samples_ = 0;
  std::uint64_t refused_commits_ = 0;

  Exchange exchange_;  // last: prefetch() ends within
};

}  // namespace rubato::worker
