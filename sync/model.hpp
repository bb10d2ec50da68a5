// sync/model.hpp - the seams of a synchronization model: commit rule, gate, tuner.
// Source: algorithms.md section 2 of the design: a model is the triple (commit rule, gate, tuner).
// Pure: no sockets, clock, threads, globals, randomness. `now` never decreases.
// Threads: one owner each. Errors: none after construction (see sync/factory.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace rubato::sync {

// What a tuner tells one worker's commit rule. A rule reads what is its own; 0: as before.
struct Directive {
  double commit_rate = 1;         // commits per check period, >= 1
  std::uint32_t local_steps = 0;  // mini-batches per commit
  Duration period = {};           // from a reply, or a commit, to the next commit: its rule's
  double weight = 1;        // of its commits: the server applies weight x U, of steps at a local
                            // rate of 1; the shorter they were, the more. The core reads it
  std::uint32_t batch = 0;  // samples a mini-batch, from the next commit on. The core reads it
  double local_rate = 1;  // part of the learning rate that steps take, in (0, 1]. The core reads it
  bool operator==(const Directive&) const = default;
};

// What a tuner tells the gates of all shards. It travels with the list of members, so that every
// shard has the last one, sooner or later; one before it may be passed over. What the number means
// is the model's.
struct Phase {
  std::uint32_t number = 0;
  struct Apart {
    std::uint64_t from = 0;  // commits after this one, counted since the worker joined
    bool excluded = false;
    bool operator==(const Apart&) const = default;
  };
  std::map<WorkerId, Apart> apart = {};  // who is treated differently
  bool operator==(const Phase&) const = default;
};

// Whether a worker trains on while its commit is in flight.
enum class Overlap {
  Never,
  Always,
  UnlessQuick,  // it waits for the replies of commits that are_quick()
};
// Whether a worker waits under Overlap::UnlessQuick: parameters a step old cost more than that.
constexpr bool are_quick(Duration overhead, Duration step_time) {
  return overhead < step_time * 0.25;
}

// When a worker commits. One object per worker, inside WorkerCore.
class CommitRule {
 public:
  virtual ~CommitRule() = default;
  // Training starts (or restarts after a rejoin): elapsed time counts from here.
  virtual void on_start(Instant now) = 0;
  // A mini-batch ended. Returns true when the worker should commit now. Asked again at every
  // mini-batch end until on_commit_sent: a true that could not be acted on is not lost.
  virtual bool on_step_end(Instant now) = 0;
  virtual void on_commit_sent(Instant now) = 0;
  // The commit's reply is complete. `overhead` is its round trip without server-side waiting.
  virtual void on_reply(Instant now, Duration overhead) = 0;
  virtual void on_directive(Instant now, const Directive& directive) = 0;
};

// What a shard does after a gate event, in this order.
struct GateActions {
  std::vector<WorkerId> apply = {};    // these commits, in this order
  std::vector<WorkerId> release = {};  // the replies of these workers, in this order
  // Before both, where a model collects commits: add this one, times weight, to what the shard has
  // collected...
  struct Collected {
    WorkerId worker;
    double weight = 1;
  };
  std::optional<Collected> collect = {};
  bool flush = false;  // ...and apply the weighted mean of it as one update
  // Before all of that: the parameters that an evaluator was given last are kept, or where none has
  // asked, at all times but the first, their average as it is...
  bool keep = false;
  // ...or made the shard's parameters again, if any were kept: for the so-many-th time. Commits
  // begun at what it then leaves are refused.
  std::optional<std::uint32_t> restore = {};
};

// When a shard applies a commit and when it releases the reply. One object per shard. A member has
// at most one commit outstanding, so a worker id names it.
class Gate {
 public:
  virtual ~Gate() = default;
  virtual void on_join(Instant now, WorkerId worker) = 0;
  // The worker left or was lost; a commit of it that is still held is dropped by the shard.
  virtual GateActions on_leave(Instant now, WorkerId worker) = 0;
  // True when every commit is applied and released at once, whatever the others do. A shard may
  // then apply and answer it chunk by chunk as it arrives, and need not call on_commit.
  virtual bool streams() const { return false; }
  // A whole commit of a member arrived.
  virtual GateActions on_commit(Instant now, WorkerId worker) = 0;
  // The tuner's phase, after every change of membership or phase; most models have none.
  virtual GateActions on_phase(Instant, const Phase&) { return {}; }
};

// How the update of a worker's last commit lies, as cosines, where the model measures that.
struct Alignment {
  double own = 0;     // with its own update before
  double during = 0;  // with the way the global parameters went while it, or if its commit before
                      // was waited for that one's update, was being made
  double before = 0;  // with the way they had gone just before: below 0 they had gone too far
};

// What a worker last reported of itself.
struct WorkerProgress {
  std::uint64_t steps = 0;    // since it joined
  std::uint64_t commits = 0;  // replied to, since it joined
  Duration step_time = {};    // t_i, EWMA, any throttle included
  Duration overhead = {};     // O_i, EWMA
  std::uint32_t batch = 0;    // samples of the steps that step_time speaks of; 0: as configured
  Alignment alignment = {};   // of the last commit
};

// Loss and accuracy of the global parameters on held-out data, at the instant they were pulled.
struct EvaluationPoint {
  Instant at;
  double loss = 0;
  double accuracy = 0;
};

// One line of the run log: what a tuner saw, what it compared, what it chose.
struct Decision {
  Instant at;
  std::string quantity = "commit rate";  // what is chosen
  double value = 0;                      // after the decision
  std::string reason;
};

// Changes the parameters of rules while training runs. One object, inside the scheduler; null for
// models that have nothing to tune.
class Tuner {
 public:
  virtual ~Tuner() = default;
  virtual void on_start(Instant now) = 0;
  virtual void on_join(Instant now, WorkerId worker) = 0;
  virtual void on_leave(Instant now, WorkerId worker) = 0;
  virtual void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) = 0;
  virtual void on_evaluation(Instant now, const EvaluationPoint& point) = 0;
  virtual void on_wakeup(Instant now) = 0;
  virtual std::optional<Instant> poll_wakeup() const = 0;

  struct Order {
    WorkerId worker;
    Directive directive;
  };
  // Both are polled until empty after every event.
  virtual std::optional<Order> poll_order() = 0;
  virtual std::optional<Decision> poll_decision() = 0;
  // For every gate; looked at after every event.
  virtual const Phase& phase() const = 0;
};

}  // namespace rubato::sync
