// sync/model.hpp - the seams of a synchronization model: commit rule, gate, tuner.
// docs/sync.md has each model as such a triple.
// Pure: no sockets, clock, threads, globals, randomness. `now` never decreases.
// Threads: one owner each. Errors: none after construction (see sync/factory.hpp).
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "sync/words.hpp"

namespace rubato::sync {

// Whether a worker trains on while its commit is in flight.
enum class Overlap {
  Never,
  Always,
  UnlessQuick,  // it waits for the replies of commits that are_quick(), while the servers are there
  WhenAway,     // it waits for replies while the servers are there
};
// Whether a worker waits for commits that take so long, under Overlap::UnlessQuick.
constexpr bool are_quick(Duration overhead, Duration step_time, double quick_steps) {
  return overhead < step_time * quick_steps;
}

// When a worker commits. One object per worker, inside WorkerCore.
class CommitRule {
 public:
  virtual ~CommitRule() = default;
  // Training starts, or goes on after a return. `anew`: nothing was trained before, or it is
  // dropped. What was due before a return stays due: where returns are more frequent than commits,
  // a rule that began to count anew would never commit.
  virtual void on_start(Instant now, bool anew) = 0;
  // A mini-batch ended. Returns true when the worker should commit now. Asked again at every
  // mini-batch end until on_commit_sent: a true that could not be acted on is not lost.
  virtual bool on_step_end(Instant now) = 0;
  virtual void on_commit_sent(Instant now) = 0;
  // The commit's reply is complete. `overhead` is its round trip without server-side waiting.
  virtual void on_reply(Instant now, Duration overhead) = 0;
  virtual void on_directive(Instant now, const Directive& directive) = 0;
};

// What a model's commits are. Others are refused.
struct CommitForm {
  bool elastic = false;   // parameters, which come with a weight; else updates
  bool weighted = false;  // of updates: they may have a weight other than 1

  bool allows(bool is_elastic, double weight) const {
    return is_elastic == elastic && (elastic || weighted || weight == 1);
  }
};

// What a shard does after a gate event. The order is: keep, restore, collect, flush, forget,
// remember, apply the memory, turn it, apply, release. A commit that is released and was not used
// before is dropped.
struct GateActions {
  std::vector<WorkerId> apply = {};    // these commits, in this order
  double weight = 1;                   // of each of them, times the commit's own
  std::vector<WorkerId> release = {};  // the replies of these workers, in this order
  struct Collected {
    WorkerId worker;
    double weight = 1;
  };
  // Add these commits, each times its weight, to what the shard has collected, in this order.
  std::vector<Collected> collect = {};
  bool flush = false;  // apply the weighted mean of what was collected as one update
  // Take these workers' updates out of the shard's memory.
  std::vector<WorkerId> forget = {};
  // The commit takes the place of a part of what the shard remembers of its worker. The rest stays.
  // `later`: in a second memory.
  struct Remembered {
    WorkerId worker;
    double part = 1;
    bool later = false;
  };
  std::vector<Remembered> remember = {};
  // Apply the mean over the workers that are remembered as one update.
  enum class Memory { Leave, ApplyAsCommit, ApplyAsMean };  // at the usual rate of a commit, a mean
  Memory memory = Memory::Leave;
  bool turn = false;  // the second memory takes the place of the first, and is empty
  // Keep the parameters that an evaluator was given last. If none has asked, keep the average as it
  // is, except at the first call.
  bool keep = false;
  // Make the kept parameters the shard's again. The number counts these orders. Commits that began
  // before the last one are refused.
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
  // The round that is open, for gates whose members count rounds or commits alike. A joiner learns
  // it from every shard when it pulls.
  virtual std::uint64_t round() const { return 0; }
  // The commit that on_commit() is about to hear is the worker's first, and this is the latest
  // round that any shard named to it: it begins there. So the shards, which hear of a joiner at
  // different times, count its rounds alike.
  virtual void on_first_commit(WorkerId, std::uint64_t /*round*/) {}
  // A whole commit of a member arrived.
  virtual GateActions on_commit(Instant now, WorkerId worker) = 0;
  // The tuner's phase, after every change of membership or phase; most models have none.
  virtual GateActions on_phase(Instant, const Phase&) { return {}; }
};

// Loss and accuracy of the global parameters on held-out data, at the instant they were pulled.
struct EvaluationPoint {
  Instant at;
  double loss = 0;
  double accuracy = 0;
  // Where an average is measured beside the parameters: by what part the loss of the parameters is
  // above that of the average. `loss` is the lower one.
  std::optional<double> gap = {};
};
// Nothing: no number.
inline std::optional<double> gap_between(double loss, double of_average) {
  const double gap = loss / of_average - 1;
  return of_average > 0 && std::isfinite(gap) ? std::optional(gap) : std::nullopt;
}

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
