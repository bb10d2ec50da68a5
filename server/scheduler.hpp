// server/scheduler.hpp - membership, shard map, tuner, evaluation results and the stop criterion.
// No parameters pass through it.
// Pure: no socket, clock, thread, global or randomness; `now` never decreases. Threads: one owner.
// Silence: a worker that says nothing for a while is lost, and the others go on without it. A
// server is waited for: it comes back with its shard, or another process goes on from its last
// snapshot. If nobody at all is heard, this node is the one that is cut off, and declares nobody
// lost.
//
// Start: a worker may train once every shard has acknowledged a member list that holds it. The
// first workers also wait until the expected number has joined.
//
// End: workers are told first. When all have left, the evaluator pulls the parameters a last time;
// nothing changes them any more. Then the servers are told. Errors: bad input from a peer is
// answered with a Refusal; the cluster is unharmed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/run_record.hpp"
#include "base/time.hpp"
#include "proto/outbox.hpp"
#include "server/member_lists.hpp"
#include "server/silence.hpp"
#include "server/stop_criterion.hpp"
#include "sync/model.hpp"

namespace rubato::server {

// The list of this many members fits into a control frame (proto::kControlBytesMax).
inline constexpr std::uint32_t kWorkersMax = 16'000;

struct SchedulerOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::uint64_t parameters = 0;
  std::uint32_t servers = 1;
  std::uint32_t workers = 1;  // expected at the start
  // Who measures the loss: the evaluator; the workers, each on samples that it holds out; or
  // nobody, and the workers' training loss takes its place.
  enum class Evaluations { Evaluator, Workers, Training } evaluations = Evaluations::Evaluator;
  Duration evaluation_interval = Duration::from_seconds(5);  // of Workers and Training
  std::string schema = {};  // what a Describe is answered; empty: the nodes know their data
  StopOptions stop;
  Task task = Task::Classification;
  Duration lost_after = Duration::from_seconds(10);
  Duration farewell = Duration::from_seconds(5);      // for the workers' last words after the stop
  Duration last_pull = Duration::from_seconds(300);   // for the evaluator's last pull after that
  Duration absent_max = Duration::from_seconds(600);  // a server's silence that ends the run
  Duration save_every;                                // of snapshots; 0: none
  std::string settings = {};                          // of every node, as in Hello
  std::string sync;                                   // for the record
  std::uint64_t seed = 0;                             // for the record
};

// One line of the scheduler's log, and what happened.
struct SchedulerEvent {
  enum class Kind { Joined, Started, Left, Lost, Absent, Back, Decision, Evaluation, Stopped };
  Kind kind = Kind::Joined;
  std::string text;
};

class Scheduler {
 public:
  // `tuner`: null when the sync model has none.
  Scheduler(const SchedulerOptions& options, std::unique_ptr<sync::Tuner> tuner);

  void on_message(Instant now, proto::PeerId from, const proto::Message& message);
  // `from` sent bytes that did not decode: it is told so.
  void on_bad_frame(proto::PeerId from, const Error& error);
  void on_wakeup(Instant now);
  // Ends the run for everyone (Ctrl-C, or a caller's own criterion).
  void stop(Instant now, std::string reason) { end(now, std::move(reason), false); }
  // The same where a shard is gone: there are no parameters to pull a last time, and no node ends
  // with exit code 0.
  void stop_without_parameters(Instant now, std::string reason);

  std::optional<proto::ToPeer> poll_send() { return outbox_.poll(); }
  std::optional<Instant> poll_wakeup() const;
  std::optional<SchedulerEvent> poll_log() { return log_.poll(); }

  // True once every expected server has a shard.
  bool serving() const { return servers_.size() == options_.servers; }
  const std::optional<Instant>& started() const { return started_; }
  // Why the run is over, once it is.
  const std::optional<std::string>& stopped() const { return stop_reason_; }
  // Always empty: nobody refuses a scheduler. For loops that drive any core.
  std::optional<Error> failure() const { return std::nullopt; }
  // True once the run is over and every member has left or is lost.
  bool drained() const;
  // True once the run is over and every node has been told.
  bool over() const { return ending_ == Ending::Over; }
  std::uint64_t steps() const { return steps_; }
  // The last evaluation. Null: none yet.
  const EvaluationRecord* last_evaluation() const {
    return record_.evaluations.empty() ? nullptr : &record_.evaluations.back();
  }
  // As StopCriterion judges them; 0 before the first evaluation.
  double smoothed_loss() const { return criterion_.smoothed_loss(); }
  double smoothed_accuracy() const { return criterion_.smoothed_accuracy(); }
  std::size_t members() const { return members_.size(); }
  // The run so far; complete once over().
  RunRecord record() const;

 private:
  struct ServerState {
    std::string name;
    std::string endpoint;
    Incarnation incarnation = 0;
    proto::PeerId peer = 0;
    std::uint64_t snapshot = 0;  // that this life began with; 0: initial parameters
    bool moved = false;  // it has not acknowledged a list yet, as the process that it is now
    std::optional<Instant> absent_since = {};  // silent, and waited for
  };
  struct WorkerState {
    std::string name;
    Incarnation incarnation = 0;
    proto::PeerId peer = 0;
    std::uint64_t epoch = 0;  // the first member list that holds it
    bool started = false;
    bool rejoining = false;  // told to join again; no shard takes its commits until then
    // Done: left after the stop. Replaced: a later process has its name.
    enum class Fate { Member, Left, Lost, Replaced, Done } fate = Fate::Member;
    proto::Progress progress;
    proto::Evaluation evaluation;  // the last of its own; of no samples: none yet
  };
  struct EvaluatorState {
    Incarnation incarnation = 0;
    proto::PeerId peer = 0;
  };

  // Messages.
  void on_server(Instant now, proto::PeerId from, const proto::Message& message);
  void on_hello(Instant now, proto::PeerId from, const proto::Message& message);
  void on_server_hello(Instant now, proto::PeerId from, const proto::Message& message);
  // Another process has the name of a server: it takes its place if it can go on. Returns: false if
  // it cannot, and was refused.
  [[nodiscard]] bool replace_server(Instant now, proto::PeerId from, std::uint32_t index,
                                    const proto::Message& message);
  void on_server_heard(Instant now, std::uint32_t index);
  void on_worker_hello(Instant now, proto::PeerId from, const proto::Message& message);
  void on_evaluator(Instant now, proto::PeerId from, const proto::Message& message);
  void on_evaluator_hello(proto::PeerId from, Incarnation incarnation);
  void welcome_evaluator();
  void on_progress(Instant now, WorkerId worker, const proto::Progress& progress);
  void on_worker_evaluation(WorkerId worker, const proto::Evaluation& evaluation);
  void on_evaluation(Instant now, Instant at, double loss, double accuracy);
  // The worker that sent `message`. Returns: null if it is no member; refuses it unless it left.
  WorkerState* find_worker(proto::PeerId from, const proto::Message& message);

  // Snapshots and absence.
  void order_snapshot(Instant now);
  // Every worker joins again, and pulls all parameters anew. `why`: for their logs.
  void rejoin_all(const std::string& why);
  void tell_moved();                                  // the evaluator, which server is where now
  void notice(const std::string& text, bool rejoin);  // to all members
  void find_absent(Instant now);
  // Returns: true if nobody was heard for so long that this node must be cut off.
  bool cut_off(Instant now);
  void heard_somebody(Instant now);
  std::string title(std::uint32_t server) const;  // "server 1 'server-1'"

  // Membership.
  void admit(Instant now, proto::PeerId from, const proto::Message& message);
  void admit_again(Instant now, WorkerId worker, Incarnation incarnation);
  void on_leave(Instant now, WorkerId worker, WorkerState::Fate fate, const std::string& why);
  void remove_member(Instant now, WorkerId id, WorkerState::Fate fate, const std::string& why);
  void end_membership(WorkerId id, WorkerState::Fate fate);
  // `failed`: the run cannot go on, and no node ends with exit code 0.
  void end(Instant now, std::string reason, bool failed);
  void find_lost(Instant now);
  void welcome_worker(WorkerId worker);
  proto::ShardMap shard_map() const;
  void change_members(Instant now);  // a new epoch
  void send_due_lists();
  void start_ready_workers(Instant now);

  // Tuner, evaluations, record.
  void drain_tuner(Instant now);
  void log(SchedulerEvent::Kind kind, std::string text) { log_.push({kind, std::move(text)}); }
  // At each interval, where the workers' figures are the evaluation.
  void evaluate_by_workers(Instant now);
  void merge_evaluations(Instant now);
  void take_training_loss(Instant now);
  void record_evaluation(double t, double loss, double accuracy);
  double heterogeneity() const;
  static std::string fate_name(WorkerState::Fate fate);  // as in WorkerRecord

  // The next step of the end, if it is time.
  void end_step(Instant now);

  void send(proto::PeerId to, proto::Body body);
  void send_stop(proto::PeerId to);  // requires stop_reason_
  void refuse(proto::PeerId to, proto::RefusalCode code, std::string message);
  double seconds(Instant now) const;  // since training started

  SchedulerOptions options_;
  std::unique_ptr<sync::Tuner> tuner_;
  StopCriterion criterion_;
  std::vector<ServerState> servers_;         // by shard
  std::vector<WorkerState> workers_;         // by id: all workers that ever joined
  std::map<std::string, WorkerId> members_;  // by name
  std::optional<EvaluatorState> evaluator_;
  // Kept up to date, so that no event has to visit every worker.
  std::uint64_t steps_ = 0;         // of all workers
  std::uint64_t commits_ = 0;       // of all workers
  std::deque<WorkerId> joined_;     // not started yet, by epoch
  Silence worker_silence_;          // of the members
  Silence server_silence_;          // of the servers that are not absent
  Silence absence_;                 // of the absent ones, since they were found so
  Silence silence_of_all_;          // one entry: when anybody was heard
  Instant heard_;                   // the last time
  bool cut_off_ = false;            // told
  std::set<Incarnation> past_;      // replaced servers; workers that are no members any more
  std::vector<Instant> snapshots_;  // when they were ordered: number 1, 2, ...
  std::optional<Instant> next_snapshot_;
  MemberLists lists_;
  sync::Phase phase_;  // as last sent to the servers
  std::optional<Instant> started_;
  std::optional<Instant> next_evaluation_;  // by the workers
  bool evaluated_ = false;                  // a worker has evaluated since the last one
  double training_loss_sum_ = 0;
  std::uint64_t training_loss_samples_ = 0;
  std::optional<std::string> stop_reason_;
  bool failed_ = false;  // with stop_reason_: the run could not go on
  Instant stopped_at_;
  // What the end waits for: the workers' last words, the evaluator's last pull, nothing.
  enum class Ending { None, Workers, Evaluator, Over } ending_ = Ending::None;
  Instant ending_until_;                 // of Workers and Evaluator
  std::size_t commit_count_stride_ = 1;  // commit counts are kept at every so-many-th evaluation
  RunRecord record_;                     // curves and decisions; record() fills in the rest
  proto::Outbox<proto::ToPeer> outbox_;
  proto::Outbox<SchedulerEvent> log_;
};

}  // namespace rubato::server
