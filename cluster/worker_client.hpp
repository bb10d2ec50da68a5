// cluster/worker_client.hpp - a worker whose training loop belongs to somebody else. The loop calls
// after each mini-batch and does what it is told; worker_node.hpp is the same for loops of ours,
// and calls them. One thread more speaks to the cluster, so that a step never waits for a message.
// The order of calls is that of abi/rubato.h, which stands on this.
// Errors: BadInput for a call that does not fit the action; failure() when the worker cannot go on.
// Threads: the methods for one at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>

#include "base/log.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cluster/difference.hpp"
#include "cluster/own_evaluation.hpp"
#include "cluster/server_lookouts.hpp"
#include "cluster/stretched_step.hpp"
#include "proto/transport.hpp"
#include "worker/worker_core.hpp"

namespace rubato::cluster {

struct WorkerClientOptions {
  std::string scheduler;         // endpoint
  std::uint64_t parameters = 0;  // elements of all tensors
  // As in WorkerNodeOptions. May be empty.
  std::function<Duration(Instant, int)> step_time = {};
  std::function<void(proto::NodeId, const std::string& endpoint)> on_located = {};
  int batch = 1;            // samples of a mini-batch, as configured
  bool scales_rate = true;  // the loop obeys Turn::rate
  // How often the loop measures on samples of its own, with the next load. Empty: never.
  std::optional<Duration> evaluate_every = {};
  bool averages = false;  // and on the average of what it loads, in the next turn
};

class WorkerClient {
 public:
  enum class Action { Train, Seed, Commit, Load, Restart, Evaluate, Wait, Over };

  // Where the worker stands.
  struct Turn {
    Action action = Action::Wait;
    std::uint32_t batch = 1;     // of the next mini-batch
    double rate = 1;             // part of the learning rate for it
    std::uint32_t joins = 0;     // how often it has become a member
    std::uint32_t setbacks = 0;  // Restart
    double seconds = 0;          // since the first step
    std::uint64_t steps = 0;     // this and the next ones: of this object
    std::uint64_t commits = 0;
    std::uint64_t bytes_up = 0;
    std::uint64_t bytes_down = 0;
    std::uint64_t earlier_steps = 0;  // of earlier processes of this name
  };

  // Begins to join. Lines of its thread go to `log`, which outlives it.
  WorkerClient(std::unique_ptr<proto::Transport> transport,
               std::unique_ptr<worker::WorkerCore> core, WorkerClientOptions options,
               LogQueue& log);
  // As leave("closed").
  ~WorkerClient();
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  // A mini-batch was made. Requires: the last turn said Train.
  [[nodiscard]] Result<Turn> step(double loss_sum, int samples);
  // Takes the update from the tensors, or their values. Requires: Commit or Seed.
  [[nodiscard]] Result<Turn> commit(std::span<const TensorMemory> tensors);
  // Writes the tensors. Requires: Load or Restart.
  [[nodiscard]] Result<Turn> load(std::span<const TensorMemory> tensors);
  // What the loop measured. Requires: Evaluate.
  [[nodiscard]] Result<Turn> evaluated(const proto::Evaluation& measured);
  // Until there is something else to do than to wait, at most so long.
  Turn wait(Duration at_most);

  // Writes what is to be measured: what was loaded last, without steps of this worker, or the
  // average. Requires: Evaluate.
  [[nodiscard]] Result<void> global(std::span<const TensorMemory> tensors);
  // Drops the steps since the last load or commit. Requires: Train.
  [[nodiscard]] Result<void> pull(std::span<const TensorMemory> tensors);

  // Mini-batches that earlier processes of this name have made; 0 until it is a member.
  std::uint64_t earlier_steps();

  // Says farewell, and waits until it is said. Any number of times.
  void leave(const std::string& why);
  // Why the worker cannot go on. Nothing: it can, or the run ended well.
  std::optional<Error> failure();

 private:
  friend struct ClientHost;

  void run(const std::stop_token& stop);
  Turn turn(Instant now);
  Action next(Instant now);
  Result<void> expect(Action action, const char* call) const;

  std::mutex mutex_;  // guards all but what is constant
  std::condition_variable changed_;
  const std::unique_ptr<proto::Transport> transport_;
  const std::unique_ptr<worker::WorkerCore> core_;
  const WorkerClientOptions options_;
  LogQueue& log_;
  ServerLookouts lookouts_;
  Difference difference_;
  StretchedStep stretched_;
  OwnEvaluation evaluations_;
  Action said_ = Action::Wait;              // by the last turn
  Instant began_;                           // the step under way
  double rate_ = 1;                         // of the step under way
  std::optional<worker::StepReport> made_;  // a stretched step that is not over
  std::optional<Instant> first_step_;
  bool evaluates_ = false;  // the loop is to evaluate
  bool member_ = false;
  std::uint32_t joins_ = 0;
  std::uint32_t setbacks_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t commits_ = 0;
  bool over_ = false;             // the thread's loop has ended
  std::optional<Error> failure_;  // why, if not well
  std::jthread thread_;           // last: it uses the members above
};

}  // namespace rubato::cluster
