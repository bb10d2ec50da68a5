// sync/sync_switch.hpp - Sync-Switch: BSP first, ASP after, so that accuracy is that of BSP and the
// time nearly that of ASP. Gate and tuner.
// Source: Li, Mangoubi, Xu, Guo, "Sync-Switch: Hybrid parameter synchronization for distributed
// deep learning", ICDCS 2021, arXiv 2104.08364, Sec. IV. Letters: m workers, B mini-batch, eta
// rate.
//
// Timing: the switch comes after a fraction of the steps that the training is planned to take,
// once. Configuration at the switch: the paper goes from a global batch m B with the rate m eta to
// B a worker with eta, momentum kept. In both, a worker's gradient counts eta. That is so here
// without a change: with the global rate 1/m a round applies the mean of m updates, and an update
// alone counts 1/m of its own; the servers keep their momentum. Stragglers, workers whose speed is
// below mean - one deviation for several windows (and, ours, a tenth below the mean), during BSP:
// greedy goes to ASP while there is one, and back; elastic leaves them out until the switch, or
// until nobody else is left (ours).
//
// A shard hears of a phase when it hears of members, others a moment later; what it then holds is
// applied and released at once. Back from ASP to BSP, or where all were left out, counts have
// drifted apart, and shards would pair other commits into rounds than their neighbours, and wait
// for each other for ever: so the tuner says from which commit of each worker on rounds are formed.
// Phase::number is 0 for BSP, 1 for ASP; Phase::Apart::from those commits; excluded: left out.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "sync/model.hpp"
#include "sync/queued_tuner.hpp"

namespace rubato::sync {

enum class StragglerPolicy { None, Greedy, Elastic };

struct SyncSwitchOptions {
  double fraction = 0.125;  // of the planned steps under BSP, in (0, 1)
  double epochs = 10;       // passes over the data that training is planned to take, > 0
  StragglerPolicy straggler = StragglerPolicy::None;
  Duration window = Duration::from_seconds(10);  // in which speeds are compared
};

enum class SwitchPhase : std::uint32_t { Bsp = 0, Asp = 1 };

class SyncSwitchGate final : public Gate {
 public:
  void on_join(Instant now, WorkerId worker) override;
  GateActions on_leave(Instant now, WorkerId worker) override;
  GateActions on_commit(Instant now, WorkerId worker) override;
  GateActions on_phase(Instant now, const Phase& phase) override;

 private:
  struct Member {
    std::int64_t commits = 0;  // since it joined
    std::int64_t round = 0;    // of its last commit; below 1: before the rounds
    bool held = false;
    bool excluded = false;
  };
  std::optional<std::int64_t> slowest() const;  // round of those that are not excluded
  void join_slowest(const std::set<WorkerId>& newcomers);
  GateActions let_go();  // what is due

  Phase phase_;
  std::map<WorkerId, Member> members_;
};

class SyncSwitchTuner final : public QueuedTuner {
 public:
  // `batches`: mini-batches in one pass over the training data of all workers.
  // Requires: valid options (sync/option_table.hpp).
  SyncSwitchTuner(const SyncSwitchOptions& options, double batches);

  void on_start(Instant now) override;
  void on_leave(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;
  void on_wakeup(Instant now) override;
  std::optional<Instant> poll_wakeup() const override { return next_window_; }

 private:
  void find_stragglers();
  bool take_all_back();     // where all are left out; returns whether they were
  void begin_rounds();      // with everybody's next commit
  void react(Instant now);  // to who is a straggler now
  void enter(Instant now, SwitchPhase phase, std::string reason);

  const SyncSwitchOptions options_;
  const double quota_;     // steps under BSP
  double steps_ = 0;       // so far
  bool switched_ = false;  // for good
  SwitchPhase now_in_ = SwitchPhase::Bsp;
  std::optional<Instant> next_window_;
  std::map<WorkerId, int> slow_windows_;  // in a row
  std::set<WorkerId> stragglers_;
  std::map<WorkerId, std::uint64_t> rounds_from_;  // since the last return to BSP
};

}  // namespace rubato::sync
