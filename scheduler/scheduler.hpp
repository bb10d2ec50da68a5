// scheduler/scheduler.hpp - what a scheduler does about each message, and in which order. What it
// has to know is in parts (docs/architecture.md, scheduler/). No parameters pass through it.
// Pure: no socket, clock, thread, global or randomness; `now` never decreases. Threads: one owner.
// Silence: a worker that says nothing for a while is lost, and the others go on without it. A
// server is waited for: it comes back with its shard, or another process goes on from its last
// snapshot. If nobody at all is heard, this node is the one that is cut off, and declares nobody
// lost.
//
// Return: another process can go on in its place. It hears the same inputs again
// (scheduler/durable_scheduler.hpp), then on_return(). From then on each node is spoken to once it
// is heard, and is then told what may not have reached it. Servers that are new processes, too,
// wait until all servers are heard, and go back to one snapshot that all of them have. Before a
// return the run may have got another number of servers: then all of them are such processes.
//
// Start: a worker may train once every shard has acknowledged a member list that holds it. The
// first workers also wait until the expected number has joined. Of a model of the workers' own, one
// of them is named and tells all shards the initial values; if it is lost before, another one is. A
// run whose last worker has gone waits for another one.
//
// End: workers are told first. When all have left, the evaluator pulls the parameters a last time;
// nothing changes them any more. Then the servers keep a last snapshot, however long a disk takes,
// and are told of the end. Workers and servers answer with a farewell. Until then they are told
// again, for their connection may break at the end, too. The end does not wait for a node that is
// silent for `lost_after`.
//
// Errors: bad input from a peer is answered with a Refusal; the cluster is unharmed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/growing_interval.hpp"
#include "base/ids.hpp"
#include "base/log_limit.hpp"
#include "base/result.hpp"
#include "base/run_record.hpp"
#include "base/time.hpp"
#include "base/timers.hpp"
#include "proto/outbox.hpp"
#include "scheduler/exclusion.hpp"
#include "scheduler/good_copies.hpp"
#include "scheduler/hearing.hpp"
#include "scheduler/loss_merge.hpp"
#include "scheduler/member_lists.hpp"
#include "scheduler/roster.hpp"
#include "scheduler/run_book.hpp"
#include "scheduler/run_phase.hpp"
#include "scheduler/seeding.hpp"
#include "scheduler/setbacks.hpp"
#include "scheduler/status_desk.hpp"
#include "scheduler/stop_criterion.hpp"
#include "scheduler/worker_watch.hpp"
#include "sync/model.hpp"

namespace rubato::scheduler {

struct SchedulerOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::uint64_t parameters = 0;
  std::uint32_t servers = 1;
  std::vector<std::string> addresses = {};  // of the servers, by shard. Empty: any may come.
  std::uint32_t workers = 1;                // expected at the start
  // The names that workers may have. Empty: any.
  std::vector<std::string> listed = {};
  bool open = false;  // workers that the cluster file does not name may join
  // The order of workers in records and answers. Those that it does not name, and later lives of a
  // name, come after them, in the order in which they joined.
  std::vector<std::string> order = {};
  // Who measures the loss: the evaluator; the workers, each on samples that it holds out; or
  // nobody, and the workers' training loss takes its place.
  enum class Evaluations { Evaluator, Workers, Training } evaluations = Evaluations::Evaluator;
  // The samples that a worker can have held out, by its name, where it has described its data.
  std::map<std::string, std::uint64_t> held_out = {};
  Duration evaluation_interval = Duration::from_seconds(5);  // of Workers and Training
  std::uint32_t batch = 0;  // samples of a step, unless the tuner says otherwise; 0: unknown
  std::string schema = {};  // what a Describe is answered; empty: the nodes know their data
  bool seeds = false;       // one worker tells the shards their initial values
  StopOptions stop;
  Task task = Task::Classification;
  Duration lost_after = Duration::from_seconds(10);
  Duration last_pull = Duration::from_seconds(300);   // for the evaluator's last pull after that
  Duration absent_max = Duration::from_seconds(600);  // a server's silence that ends the run
  Duration workers_absent_max = Duration::from_seconds(600);  // without any, until the run ends
  Duration save_every;                                        // of snapshots; 0: none
  bool journal = false;  // of servers: a snapshot and its journal lead to a server's last moment
  // Workers that lie or hang, and parameters that broke, are acted upon. Empty on virtual time,
  // where nobody does, and where a run that diverges is to be seen.
  std::optional<WatchOptions> watch = {};
  std::string settings = {};  // of every node, one a line
  std::string sync;           // for the record
  std::uint64_t seed = 0;     // for the record
};

// The servers of a run, from some instant on.
struct Resharding {
  std::uint32_t servers = 0;
  std::vector<std::string> addresses = {};  // of the servers, by number; empty: any
  std::uint64_t snapshot = 0;               // the one that all of them have; 0: none
  bool operator==(const Resharding&) const = default;
};

// One line of the scheduler's log, and what happened.
struct SchedulerEvent {
  enum class Kind {
    Joined,
    Started,
    Left,
    Lost,
    Absent,
    Warning,
    Back,
    Decision,
    Evaluation,
    Stopped
  };
  Kind kind = Kind::Joined;
  std::string text;
};

class Scheduler {
 public:
  // `tuner`: null when the sync model has none.
  Scheduler(const SchedulerOptions& options, std::unique_ptr<sync::Tuner> tuner);
  Scheduler(const Scheduler&) = delete;  // its parts refer to each other
  Scheduler& operator=(const Scheduler&) = delete;

  // Before on_return(): other servers, so many, take over the shards of those of before.
  void on_resharded(Instant now, const Resharding& to);

  // Returns: false if the message changed nothing: nobody who belongs here sent it, or it only
  // asked.
  bool on_message(Instant now, proto::PeerId from, const proto::Message& message);
  // Another process goes on in the place of the one that heard everything before. Nodes may have
  // heard nobody for a while, and their addresses are not known.
  void on_return(Instant now);
  // `from` sent bytes that did not decode: it is told so.
  void on_bad_frame(proto::PeerId from, const Error& error);
  void on_wakeup(Instant now);
  // From now on it says for whom the start waits, to its log and to all nodes: 5 s after a change,
  // and more and more rarely while nothing changes.
  void announce_waits(Instant now);
  // Ends the run for everyone (Ctrl-C, or a caller's own criterion).
  void stop(Instant now, std::string reason) { end(now, std::move(reason), false); }
  // Ends a run that cannot go on: no node ends with exit code 0.
  void fail(Instant now, std::string reason) { end(now, std::move(reason), true); }
  // The end waits no longer for a snapshot from which the run could go on, and says what is lost.
  void hurry_end(Instant now);
  // Ends a run of which a shard is gone: there are no parameters to pull a last time, and no node
  // ends with exit code 0.
  void stop_without_parameters(Instant now, std::string reason);

  std::optional<proto::ToPeer> poll_send() { return outbox_.poll(); }
  std::optional<Instant> poll_wakeup() const;
  std::optional<SchedulerEvent> poll_log() { return log_.poll(); }

  // The run is over because it could not go on: no criterion held.
  bool failed() const { return run_.failed(); }
  // After a return: no worker has been heard yet.
  bool awaits_workers() const { return hearing_.awaits_workers(); }
  const SchedulerOptions& options() const { return options_; }
  // True once every expected server has a shard.
  bool serving() const { return servers_.size() == options_.servers; }
  const std::optional<Instant>& started() const { return run_.started(); }
  // Why the run is over, once it is.
  const std::optional<std::string>& stopped() const { return run_.stop_reason(); }
  // Always empty: nobody refuses a scheduler. For loops that drive any core.
  std::optional<Error> failure() const { return std::nullopt; }
  // True once the run is over and every member has left or is lost.
  bool drained() const;
  // True once the run is over and every node has been told.
  bool over() const { return run_.over(); }
  std::uint64_t steps() const { return book_.steps(); }
  // The last evaluation. Null: none yet.
  const EvaluationRecord* last_evaluation() const {
    return book_.evaluations().empty() ? nullptr : &book_.evaluations().back();
  }
  // As StopCriterion judges them; 0 before the first evaluation.
  double smoothed_loss() const { return criterion_.smoothed_loss(); }
  double smoothed_accuracy() const { return criterion_.smoothed_accuracy(); }
  std::size_t members() const { return roster_.members().size(); }
  std::size_t servers() const { return servers_.size(); }
  std::vector<std::string> server_names() const;
  const GoodCopies& copies() const { return copies_; }
  std::uint32_t setbacks() const { return setbacks_.count(); }
  std::uint64_t commits() const { return book_.commits(); }  // of all workers
  // All that ever joined, by number, and the last totals of one of them.
  const std::vector<Roster::Worker>& workers() const { return roster_.all(); }
  const proto::Progress& progress(WorkerId worker) const { return book_.progress(worker); }
  // What the member at this address would say to leave. Nothing: no member is there.
  std::optional<proto::Message> farewell_of(proto::PeerId peer, std::string reason) const;
  // How long training may still take; empty: nobody can tell (scheduler/time_left.hpp).
  std::optional<double> seconds_left(Instant now) const;
  // The run as JSON for people and programs that watch it.
  std::string status(Instant now) const;
  // The lowest loss of all evaluations; infinity before the first.
  double lowest_loss() const { return book_.lowest_loss(); }
  // Another process that has heard the same has the same one.
  std::uint64_t state_hash() const;
  // The run so far; complete once over().
  RunRecord record() const;

 private:
  struct ServerState {
    std::string name;
    std::string endpoint;
    std::string public_key;  // by which workers know it
    Incarnation incarnation = 0;
    proto::PeerId peer = 0;
    std::uint64_t snapshot = 0;  // that this life began with; 0: initial parameters
    bool anew = false;           // this scheduler process had it begin with initial parameters
    bool unplaced = false;       // it waits, and its snapshots or its address say where it belongs
    bool moved = false;  // it has not acknowledged a list yet, as the process that it is now
    bool told = false;   // it has said farewell
    // Its clock as it told it last, and when; 0: not since the last on_return().
    Instant clock = {};
    Instant clock_heard = {};
  };
  struct EvaluatorState {
    Incarnation incarnation = 0;
    proto::PeerId peer = 0;
    std::uint64_t epoch = 0;  // the first list that names it
    bool started = false;     // it was told to pull
  };

  // Messages.
  void take(Instant now, proto::PeerId from, const proto::Message& message);
  void on_server(Instant now, proto::PeerId from, const proto::Message& message);
  void on_hello(Instant now, proto::PeerId from, const proto::Message& message);
  void on_server_hello(Instant now, proto::PeerId from, const proto::Message& message);
  // Its shard; the number of servers, if it has none yet and can have the next. Nothing: it was
  // refused, or waits for its turn.
  std::optional<std::uint32_t> place_of(Instant now, proto::PeerId from, const proto::Hello& hello);
  // Another process has the name of a server: it takes its place if it can go on. Returns: false if
  // it cannot, and was refused. `number`: of the snapshot that it is to have; none: its
  // newest.
  // `together`: all servers are new processes.
  [[nodiscard]] bool replace_server(Instant now, proto::PeerId from, std::uint32_t index,
                                    const proto::Message& message,
                                    std::optional<std::uint64_t> number = {},
                                    bool together = false);
  void welcome_server(Instant now, proto::PeerId from, std::uint32_t index);
  // Servers that are new processes wait for each other: after a return, and where they have
  // snapshots of a run of whose start the journal knows nothing. Once every server is heard or
  // waits, those that wait go on.
  void settle_servers(Instant now);
  // Servers whose places the journal has lost take those of which their snapshots are. Returns:
  // false if they cannot: then they stay.
  bool place_waiting();
  void on_server_heard(Instant now, std::uint32_t index);
  void on_worker_hello(Instant now, proto::PeerId from, const proto::Message& message);
  // A worker that looks for the servers before it joins.
  void on_look(Instant now, proto::PeerId from, const proto::Hello& hello);
  // It hears what all are told of the start and the end.
  void note_outside(proto::PeerId from, const std::string& name, const std::string& trouble);
  void tell_status(Instant now, proto::PeerId from, std::size_t fill);
  // For whom the start waits. Empty: for nobody.
  std::string awaited() const;
  void say_awaited(Instant now);
  void on_evaluator(Instant now, proto::PeerId from, const proto::Message& message);
  void on_evaluator_hello(Instant now, proto::PeerId from, Incarnation incarnation);
  void welcome_evaluator();
  // It pulls from when all shards know it.
  void start_evaluator();
  void on_progress(Instant now, WorkerId worker, const proto::Progress& progress);
  void on_evaluation(Instant now, Instant at, double loss, double accuracy,
                     const ClassFigures& classes = {}, std::optional<double> gap = {});
  // Whether a member sent `message`. Refuses it if not, unless it left.
  bool is_from_member(Instant now, proto::PeerId from, const proto::Message& message);

  // Members that lie or break.
  void on_standings(Instant now, std::uint32_t server, const proto::Heartbeat& beat);
  void act(Instant now, const WorkerWatch::Verdict& verdict);
  // For workers that do not commit.
  void look_for_idle(Instant now);
  void go_on_without(Instant now, const WorkerWatch::Verdict& verdict);
  void set_aside(Instant now, const WorkerWatch::Verdict& verdict);
  // The cluster file does not name it.
  bool unlisted(const std::string& name) const;
  // A worker that was left out shows progress, and has been away for long enough.
  bool may_come_back(Instant now, WorkerId worker, const proto::Message& message) const;
  // The parameters are of no use: all shards go back, or the run ends.
  void set_back(Instant now, const std::string& why);
  void watch_loss(Instant now, Instant at, double loss);

  // Snapshots and absence.
  // `needed`: a server cannot go on without one.
  void order_snapshot(Instant now, bool needed = false);
  void send_order(Instant now, const proto::Save& order);
  // Every worker joins again, and pulls all parameters anew. `why`: for their logs.
  void rejoin_all(const std::string& why);
  void tell_moved();                                  // the evaluator, which server is where now
  void notice(const std::string& text, bool rejoin);  // to all members
  void find_absent(Instant now);
  void find_silent_at_end(Instant now);
  // A worker is heard for the first time since the return: it is told what may not have reached it.
  void tell_again(WorkerId worker);
  // Returns: whether this node is cut off. It says so, and ends the run after a long time.
  bool cut_off(Instant now);
  void hear_worker(Instant now, WorkerId worker);
  // `again`: this node was cut off until now.
  void heard_somebody(bool again);
  std::string title(std::uint32_t server) const;  // "server 1 'server-1'"

  // Membership.
  void admit(Instant now, proto::PeerId from, const proto::Message& message);
  void admit_again(Instant now, WorkerId worker, Incarnation incarnation);
  bool on_late_hello(Instant now, proto::PeerId from, const proto::Message& message);
  bool joins_again(WorkerId worker, const proto::Message& message) const;
  // A member goes. `life`: as what.
  void on_leave(Instant now, WorkerId worker, Life life, const std::string& why);
  void remove_member(Instant now, WorkerId id, Life life, const std::string& why);
  void end_membership(WorkerId id, Life life, std::optional<Instant> gone_at);
  // `failed`: the run cannot go on, and no node ends with exit code 0.
  void end(Instant now, std::string reason, bool failed);
  void find_lost(Instant now);
  // While nobody is a member: says so, and ends the run in the end.
  void await_workers(Instant now);
  void welcome_worker(WorkerId worker);
  proto::ShardMap shard_map() const;
  void change_members(Instant now);  // a new epoch
  void send_due_lists();
  void start_ready_workers(Instant now);
  void begin_training(Instant now);
  // Sees to it that all shards get initial values. Returns: whether they have them.
  bool await_seed(Instant now);

  // Tuner, evaluations, record.
  void drain_tuner(Instant now);
  // Ends the run if its time or its steps have reached their limit.
  void stop_at_limit(Instant now);
  void log(SchedulerEvent::Kind kind, std::string text) { log_.push({kind, std::move(text)}); }
  // At each interval, where the workers' figures are the evaluation.
  void evaluate_by_workers(Instant now);
  void log_lines_of_losses();

  // The next step of the end, if it is time.
  void end_step(Instant now);
  // Orders the snapshot of the end, and says whether nobody waits for it any more.
  [[nodiscard]] bool last_save_over(Instant now);
  // `text`, and for each of these servers what a run that goes on would not have.
  void tell_unsaved(const std::vector<std::uint32_t>& servers, std::string text);
  // Each has said farewell, or is silent.
  bool servers_have_ended() const;

  void send(proto::PeerId to, proto::Body body);
  void send_stop(proto::PeerId to);  // Requires: the run is stopped.
  void refuse(proto::PeerId to, proto::RefusalCode code, std::string message);
  // The log says who is refused.
  void warn_of_refusal(Instant now, const std::string& why);
  // Who has no place here; the log says it, too.
  void refuse_aloud(Instant now, proto::PeerId to, std::string why);

  // A server that is a new process, until all are there.
  struct Waiting {
    proto::PeerId peer = 0;
    proto::Message hello;
  };
  enum class Timer {
    Evaluation,  // the next evaluation by the workers
    Look,        // for workers that do not commit
    Word,        // for whom the start waits: it is looked at, and said if it has changed
    Call,        // a line that no worker is left
    NoWorker,    // the run ends, since no worker has come
    MaxSeconds   // the run has the time that it may take
  };

  // A worker that has not joined.
  struct Outside {
    proto::PeerId peer = 0;
    std::string trouble;  // why it cannot; empty: nothing known
  };

  SchedulerOptions options_;
  std::unique_ptr<sync::Tuner> tuner_;  // null: there is nothing to tune
  StopCriterion criterion_;
  Run run_;
  Timers<Timer, Timer::MaxSeconds> timers_;  // none once the run is stopped

  // Who is here.
  std::vector<ServerState> servers_;    // by shard
  std::set<Incarnation> past_servers_;  // another process has taken the place of each
  Roster roster_;
  std::optional<EvaluatorState> evaluator_;
  Hearing hearing_;
  bool settling_ = false;                     // as settle_servers() says
  std::map<std::uint32_t, Waiting> waiting_;  // by shard; only while settling_
  // By name: workers that look for the servers, or were left out and wait to come back.
  std::map<std::string, Outside> outside_;

  // What they were told.
  MemberLists lists_;
  sync::Phase phase_;                               // as last sent to the servers
  std::map<WorkerId, sync::Directive> directives_;  // the last of each
  Seeding seeding_;
  GoodCopies copies_;
  Setbacks setbacks_;
  struct End {                   // of the snapshot at the end of the run
    std::uint64_t orders = 0;    // so many; a disk may refuse it
    std::uint64_t number = 0;    // of the first of them
    Instant orders_at = {};      // not before
    Instant looks_at = {};       // for the servers, at the latest
    Instant says_at = {};        // for whom it waits
    bool broken = false;         // a server has said that its parameters are not finite
    bool no_parameters = false;  // a shard is gone for good: there is nothing to keep
  } end_;
  Exclusion exclusion_;

  // What they told.
  LossMerge losses_;
  RunBook book_;
  StatusDesk desk_;
  struct Heard {  // of the message that is heard now
    bool refused = false;
    bool changed = false;  // something, whether it is refused or not
  } heard_;

  RepeatedLine word_{Duration::from_seconds(10)};  // for whom the start waits
  LogLimit said_;                                  // of strangers, and of what workers cannot reach
  proto::Outbox<proto::ToPeer> outbox_;
  proto::Outbox<SchedulerEvent> log_;
};

}  // namespace rubato::scheduler
