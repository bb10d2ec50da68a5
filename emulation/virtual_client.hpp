// emulation/virtual_client.hpp - the same as cluster/worker_client.hpp for a loop that the virtual
// cluster drives: it says when to step, commit and load, and what time it is. The turns
// are those of a real cluster, so a loop does not know where it is. Errors: BadInput for a call
// that does not fit the action; Gone when the virtual cluster is no more. Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cluster/difference.hpp"
#include "cluster/worker_client.hpp"
#include "emulation/step_channel.hpp"

namespace rubato::emulation {

class VirtualClient {
 public:
  using Turn = cluster::WorkerClient::Turn;
  using Action = cluster::WorkerClient::Action;

  // Describes the model. `initial`: the tensors, whose values one worker's run begins with.
  // `batch`: as configured. Io.
  [[nodiscard]] static Result<std::unique_ptr<VirtualClient>> make(
      StepChannel channel, const std::string& described, std::uint64_t parameters, int batch,
      std::span<const cluster::TensorMemory> initial);
  // For make().
  VirtualClient(StepChannel channel, SharedVector memory, std::uint64_t parameters, int batch,
                bool doubles)
      : channel_(std::move(channel)),
        memory_(std::move(memory)),
        difference_(parameters),
        doubles_(doubles),
        batch_(batch) {}

  [[nodiscard]] Result<Turn> step(double loss_sum, int samples);
  [[nodiscard]] Result<Turn> commit(std::span<const cluster::TensorMemory> tensors);
  [[nodiscard]] Result<Turn> load(std::span<const cluster::TensorMemory> tensors);
  [[nodiscard]] Result<Turn> evaluated(const proto::Evaluation& measured);
  Turn wait(Duration at_most);
  [[nodiscard]] Result<void> global(std::span<const cluster::TensorMemory> tensors);
  [[nodiscard]] Result<void> pull(std::span<const cluster::TensorMemory> tensors);
  void leave(const std::string& why);
  std::optional<Error> failure() const { return failure_; }

 private:
  bool take(std::span<const cluster::TensorMemory> tensors);
  void keep(std::span<const cluster::TensorMemory> tensors);
  Turn turn() const;
  Turn done(StepRecord record);
  Result<void> expect(Action action, const char* call) const;

  StepChannel channel_;
  SharedVector memory_;
  bool based_ = false;              // the memory has the base: what the last order loaded
  cluster::Difference difference_;  // with a base of its own
  const bool doubles_;  // some tensor is of them: it keeps what float32 cannot say of its W
  const int batch_;
  StepRecord order_;  // the last
  Action said_ = Action::Wait;
  std::uint32_t setbacks_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t commits_ = 0;
  double seconds_ = 0;
  std::optional<Error> failure_;
};

}  // namespace rubato::emulation
