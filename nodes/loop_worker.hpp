// nodes/loop_worker.hpp - a worker whose training loop and model are the user's: from its cluster
// file until it leaves. abi/rubato.h makes it a C interface, and says what each call does.
// Errors: BadInput before it joins, one line that names what to mend; then those of
// cluster/worker_client.hpp. Threads: as there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "base/result.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/difference.hpp"
#include "cluster/tensor_table.hpp"
#include "cluster/worker_client.hpp"
#include "emulation/virtual_client.hpp"
#include "nodes/joining.hpp"
#include "nodes/node_options.hpp"
#include "train/model/partition.hpp"

namespace rubato::nodes {

using cluster::TensorKind;

struct LoopTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  TensorKind kind = TensorKind::Trained;
  bool integers = false;         // of 64 bits; still ones alone
  cluster::TensorMemory memory;  // of integers: no element
  std::string alias_of = {};     // set by open(): an earlier tensor of the same memory

  bool travels() const { return kind != TensorKind::Still && alias_of.empty(); }
};

struct LoopRun {
  NodeOptions node;
  std::string like;
  bool stretch = false;
  Throttle throttle;
  // What the loop does.
  bool scales_rate = false;
  bool resizes_batch = false;
  bool evaluates = false;
  std::uint64_t samples = 0;   // 0: unknown
  std::uint64_t held_out = 0;  // 0: unknown
  int channel = -1;  // of the virtual cluster that drives the loop (emulation/step_channel.hpp)
};

// The name and the place of a worker, before there is a model. An empty name: the only worker of
// the file.
struct LoopIdentity {
  std::string name;
  std::uint32_t worker = 0;   // place in the file
  std::uint32_t workers = 0;  // that it lists
  int batch = 1;
  std::uint64_t seed = 0;
  std::string data;  // workers.data; empty: none
};
[[nodiscard]] Result<LoopIdentity> identify(LoopRun run);

class LoopWorker {
 public:
  // Reads the file, checks the tensors, and begins to join. Does not wait for anybody. `log`
  // outlives the worker.
  [[nodiscard]] static Result<std::unique_ptr<LoopWorker>> open(LoopRun run,
                                                                std::vector<LoopTensor> tensors,
                                                                LogQueue& log);

  // For open().
  LoopWorker(LoopRun run, WorkerPlace place, std::vector<LoopTensor> tensors, LoopIdentity identity,
             LogQueue& log);
  // Ends what it waits for.
  ~LoopWorker();
  LoopWorker(const LoopWorker&) = delete;
  LoopWorker& operator=(const LoopWorker&) = delete;

  // Calls f(client) and returns what it returns. BadInput until the workers have agreed on a model
  // of their own: the loop has to wait until then.
  template <class F>
  auto with_client(F f) -> decltype(f(std::declval<cluster::WorkerClient&>())) {
    if (virtual_) return f(*virtual_);
    if (client_) return f(*client_);
    return fail(ErrorCode::BadInput, "the last turn said wait: call rubato_wait()");
  }
  // Why the worker cannot go on. Nothing: it can, or the run ended well.
  std::optional<Error> failure();
  // As WorkerClient::wait(). Refused: the other workers have another model.
  [[nodiscard]] Result<cluster::WorkerClient::Turn> wait(Duration at_most);
  // Says farewell. Any number of times.
  void leave(const std::string& why);
  const LoopIdentity& identity() const { return identity_; }
  // The tensors that travel, where they are now: `data` has an address for each tensor of open();
  // null: as they were there.
  std::span<const cluster::TensorMemory> memory(void* const* data);
  // A step was made, with a loss over so many samples. BadInput: none was told yet, and the run
  // cannot do without.
  [[nodiscard]] Result<void> check_loss(std::uint64_t samples);
  // BadInput: the loop measured no accuracy, which is the target.
  [[nodiscard]] Result<void> check_accuracy(double accuracy) const;
  // This worker's part of so many samples, by the partition of the file. `labels`: empty, if there
  // are no classes. Returns: how many are its.
  [[nodiscard]] Result<std::size_t> share(std::span<const std::int32_t> labels, std::size_t samples,
                                          int classes);
  // The next samples of its part. BadInput: share() was not called.
  [[nodiscard]] Result<void> draw(std::span<std::uint32_t> indices);

 private:
  static Result<std::unique_ptr<LoopWorker>> open_virtual(LoopRun run,
                                                          cluster::ClusterConfig config,
                                                          std::vector<LoopTensor> tensors,
                                                          const LoopIdentity& identity,
                                                          LogQueue& log);
  // The plan is known: joins.
  Result<void> begin(cluster::ClusterPlan plan);

  LoopRun run_;
  WorkerPlace place_;
  LoopIdentity identity_;
  LogQueue& log_;
  cluster::ClusterPlan plan_;
  bool tells_loss_ = false;
  std::vector<LoopTensor> tensors_;
  std::vector<std::size_t> travelling_;           // which of them
  std::vector<cluster::TensorMemory> addresses_;  // of those
  std::optional<train::BatchSampler> sampler_;
  bool drawn_ = false;
  std::mutex mutex_;                                    // guards agreed_
  std::optional<Result<cluster::ClusterPlan>> agreed_;  // what agreement_ has heard
  std::condition_variable heard_;
  std::jthread agreement_;
  std::unique_ptr<emulation::VirtualClient> virtual_;  // in the virtual cluster; else null
  std::unique_ptr<cluster::WorkerClient> client_;      // last: it uses the link of place_
};

}  // namespace rubato::nodes
