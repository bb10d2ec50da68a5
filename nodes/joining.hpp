// nodes/joining.hpp - what a server and a worker have in common before their cores are there: the
// cluster file, the keys, the emulated link, the profile of a worker, and the model's inputs, which
// the scheduler tells. Errors: BadInput, one line; those of the scheduler name its endpoint.
// Threads: the caller's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/cluster_config.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/tensor_table.hpp"
#include "nodes/host_link.hpp"
#include "nodes/node_options.hpp"
#include "nodes/stop.hpp"
#include "proto/identity.hpp"
#include "train/model/input_schema.hpp"

namespace rubato::nodes {

using KeysPointer = std::shared_ptr<const proto::Keys>;

// What a node calls itself, what it proves that with, and its emulated link.
struct Named {
  std::string name;
  KeysPointer keys;
  const cluster::LinkWays* ways = nullptr;
};

// The core knows its scheduler as a peer, the user as an address: names it when nobody answers, or
// another run's scheduler does.
Error join_error(Error error, const NodeOptions& options);

// Time 0 of the traces, for a process that begins while training is under way.
std::optional<Instant> traces_began(const NodeOptions& options);

// The cluster file, with the seed of the options.
[[nodiscard]] Result<cluster::ClusterConfig> load_config(const NodeOptions& options);

// The schema that all train with: the stated one, or the scheduler is asked. `summary`: of a
// worker's own data; empty for a server.
[[nodiscard]] Result<train::InputSchema> ask_for_schema(const NodeOptions& options,
                                                        const cluster::ClusterConfig& config,
                                                        proto::Role role, const Named& who,
                                                        std::string summary, const Stop& stop);

// Asks a scheduler of model.kind = "own" for the table of tensors that the workers agreed on.
[[nodiscard]] Result<cluster::TensorTable> ask_for_table(const NodeOptions& options,
                                                         const cluster::ClusterConfig& config,
                                                         proto::Role role, const Named& who,
                                                         std::string table, const Stop& stop);

// A worker as the file has it, and how it reaches the scheduler.
struct WorkerPlace {
  cluster::ClusterConfig config;
  cluster::WorkerProfile profile;
  KeysPointer keys;
  HostLink link;
  std::optional<Instant> began;  // as traces_began()

  Named named() const { return {profile.name, keys, link.ways()}; }
};
// options.scheduler becomes a full endpoint. `config`: of load_config(). `like`: a group or
// worker of the file, for a worker that it does not list; empty: the first.
[[nodiscard]] Result<WorkerPlace> place_worker(NodeOptions& options, cluster::ClusterConfig config,
                                               const std::string& like, const Throttle& throttle,
                                               const Stop& stop);
// How long each step of worker `index` of the plan should take at least, as long as on the device
// that it stands for. The first step begins the clock of the link and its traces. Empty where steps
// are not stretched, or the file has no time: that clock begins now. Lifetime: of `place`, longer.
[[nodiscard]] std::function<Duration(Instant, int)> step_times(WorkerPlace& place,
                                                               const cluster::ClusterPlan& plan,
                                                               std::uint32_t index, bool stretched);
// The place of what this worker has not sent; null without a state directory.
[[nodiscard]] Result<std::shared_ptr<worker::Residual>> open_residual(
    const NodeOptions& options, const cluster::ClusterPlan& plan);
// The profile of this worker in the file, or of the one that it is like.
[[nodiscard]] Result<cluster::WorkerProfile> profile_of(const cluster::ClusterConfig& config,
                                                        const std::string& name,
                                                        const std::string& like);

}  // namespace rubato::nodes
