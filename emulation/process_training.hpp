// emulation/process_training.hpp - the computing of a virtual cluster whose workers have training
// loops of their own (model.kind = "own"). Each worker is a process, which takes the place of a
// trainer; one more evaluates, if the loops measure anything. At most `threads` of them compute at
// a time. The results do not depend on which ones do. Errors: as VirtualTraining; the
// message names the worker. Threads: one owner.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster_config.hpp"
#include "cluster/tensor_table.hpp"
#include "emulation/loop_processes.hpp"
#include "emulation/virtual_training.hpp"

namespace rubato::emulation {

class ProcessTraining final : public VirtualTraining {
 public:
  struct Options {
    std::string file;  // the cluster file
    std::string sync;
    std::uint64_t seed = 1;
    int threads = 1;
    std::vector<std::string> workers;  // by place in the plan
    std::vector<bool> begins;          // which of them begin; the others may follow
    std::string curves = {};           // where they note their steps; empty: as they were told
    Duration patience = kLoopPatience;
  };
  // Starts the processes, and lets them describe their models. BadInput: they differ.
  [[nodiscard]] static Result<std::unique_ptr<ProcessTraining>> start(
      std::shared_ptr<LoopLauncher> launcher, Options options);
  // For start().
  ProcessTraining(std::shared_ptr<LoopLauncher> launcher, Options options)
      : launcher_(std::move(launcher)), options_(std::move(options)) {}

  const cluster::TensorTable& table() const { return table_; }
  const std::vector<float>& initial() const { return initial_; }  // of the first worker
  std::uint64_t samples() const { return samples_; }              // of all workers that began
  bool evaluates() const { return evaluates_; }

  Result<void> begin_step(std::uint32_t index, const train::StepPlan& plan, StepTime time) override;
  Result<train::BatchResult> end_step(std::uint32_t index) override;
  Result<void> restart(std::uint32_t index) override;
  Result<worker::Update> take_update(std::uint32_t index, Taking taking) override;
  Result<void> load(std::uint32_t index, std::span<const float> parameters, Since since) override;
  void begin_evaluation(std::span<const float> parameters) override;
  Result<train::EvaluationResult> end_evaluation() override;

 private:
  // Where the base of the next update of a process lies.
  enum class Base {
    None,    // nothing was loaded yet, or it was committed
    Memory,  // what is in `memory`
    Own,     // what the process has kept
  };
  struct Loop {
    std::unique_ptr<LoopProcess> process;  // null: there is none
    SharedVector memory;
    Base base = Base::None;
    StepRecord order;      // to be sent, or under way
    bool waiting = false;  // in queue_
    bool running = false;
    StepRecord answer;  // to the last order
    std::shared_ptr<Floats> update;
    int lives = 0;
  };

  Result<void> begin();
  Result<void> launch(Loop& loop, const std::string& name, bool evaluates);
  Result<cluster::DescribedTable> describe(Loop& loop);
  Loop& evaluator() { return loops_.back(); }
  // Gives the order to a process as soon as another one may compute.
  void submit(Loop& loop, StepRecord order);
  void dispatch();
  // Until the order of `loop` is carried out.
  Result<void> finish(Loop& loop);
  // The base is no longer in the memory. Requires: as carry_out().
  Result<void> keep_base(Loop& loop);
  // At once, whatever others compute. Requires: none is under way there.
  Result<void> carry_out(Loop& loop, StepRecord order);
  std::string who(const Loop& loop) const;
  Error lost(Loop& loop);
  Error left(Loop& loop);  // it said so

  std::shared_ptr<LoopLauncher> launcher_;
  Options options_;
  cluster::TensorTable table_;
  std::string table_of_;  // whose it is
  std::vector<float> initial_;
  std::uint64_t samples_ = 0;
  bool evaluates_ = false;
  std::vector<Loop> loops_;  // by worker, then the evaluator
  std::deque<Loop*> queue_;
  int running_ = 0;
};

}  // namespace rubato::emulation
