// nodes/loop_worker.hpp - a worker whose training loop and model are the user's: from its cluster
// file until it leaves. abi/rubato.h makes it a C interface, and says what each call does.
// Errors: BadInput before it joins, one line that names what to mend; then those of
// cluster/worker_client.hpp. Threads: as there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/result.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/difference.hpp"
#include "cluster/worker_client.hpp"
#include "nodes/host_link.hpp"
#include "nodes/node_options.hpp"
#include "train/model/partition.hpp"

namespace rubato::nodes {

// What travels of a tensor.
enum class TensorKind : std::uint8_t { Trained, Averaged, Still };

struct LoopTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  TensorKind kind = TensorKind::Trained;
  cluster::TensorMemory memory;
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
  std::uint64_t held_out = 0;  // likewise
};

// Who a worker is, before there is a model. An empty name: the only worker of the file.
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
  // Reads the file, checks the tensors, and begins to join. `log` outlives the worker.
  [[nodiscard]] static Result<std::unique_ptr<LoopWorker>> open(LoopRun run,
                                                                std::vector<LoopTensor> tensors,
                                                                LogQueue& log);

  cluster::WorkerClient& client() { return *client_; }
  const LoopIdentity& identity() const { return identity_; }
  // The tensors that travel, where they are now: `data` has an address for each tensor of open();
  // null: as they were there.
  std::span<const cluster::TensorMemory> memory(void* const* data);
  // This worker's part of so many samples, by the partition of the file. `labels`: empty, if there
  // are no classes. Returns: how many are its.
  [[nodiscard]] Result<std::size_t> share(std::span<const std::int32_t> labels, std::size_t samples,
                                          int classes);
  // The next samples of its part. BadInput: share() was not called.
  [[nodiscard]] Result<void> draw(std::span<std::uint32_t> indices);

 private:
  LoopWorker() = default;

  LoopIdentity identity_;
  cluster::ClusterConfig config_;
  cluster::ClusterPlan plan_;
  std::vector<LoopTensor> tensors_;
  std::vector<std::size_t> travelling_;           // which of them
  std::vector<cluster::TensorMemory> addresses_;  // of those
  std::optional<train::BatchSampler> sampler_;
  bool drawn_ = false;
  HostLink link_;
  std::optional<Instant> began_;                   // time 0 of the traces
  std::unique_ptr<cluster::WorkerClient> client_;  // last: it uses the link
};

}  // namespace rubato::nodes
