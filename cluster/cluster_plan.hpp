// cluster/cluster_plan.hpp - every node of a run derives the same from the cluster file and the
// seed: the model, its initial parameters, the samples of each worker, the options of each core.
// The virtual cluster and the real processes both build their cores here.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/shareable.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/model_start.hpp"
#include "cluster/tensor_table.hpp"
#include "scheduler/scheduler.hpp"
#include "server/server_core.hpp"
#include "train/data/dataset.hpp"
#include "train/model/model_spec.hpp"
#include "worker/evaluator_core.hpp"
#include "worker/worker_core.hpp"

namespace rubato::cluster {

// Each purpose has a stream of random numbers of its own: draws of one do not change another.
enum class Stream : std::uint64_t { Incarnation = 1, Sampler = 2, StepTime = 3, Latency = 4 };

struct ClusterPlan {
  std::uint64_t cluster = 0;  // cluster id
  std::uint64_t seed = 0;
  std::string sync;
  // shared_settings() of a node that meets others with files of their own; else empty.
  std::string settings;
  train::ModelSpec spec;                             // none of an own model
  std::shared_ptr<const TensorTable> own = nullptr;  // model.kind = "own"; else null
  std::uint64_t parameters = 0;                      // that are trained
  ModelStart start;
  // Those of the file first, then those that join beside them.
  std::vector<WorkerProfile> workers;
  std::size_t listed = 0;   // how many of them the file has
  int batch = 1;            // samples of a mini-batch, as configured
  std::size_t samples = 0;  // of training data, all workers together; only the scheduler asks
  // Of workers that have described their own data to the scheduler: their samples.
  std::map<std::string, std::uint64_t> described = {};
  std::map<std::string, std::uint64_t> held_out = {};  // of an own model, what they measure on
  std::uint64_t left_out = 0;                          // of this node's own data, as in Hello
  // model.kind = "timing": one chunk that stands for every payload. Else null.
  std::shared_ptr<const Floats> blank;
};

// BadInput for a sync model that does not exist. With model.kind = "timing" also for one that needs
// a loss, a target or data.
[[nodiscard]] Result<void> check_sync(const ClusterConfig& config, const std::string& sync);

// BadInput for an unknown sync model or a model that does not fit the data.
[[nodiscard]] Result<ClusterPlan> make_plan(const ClusterConfig& config, const std::string& sync,
                                            std::uint64_t seed, train::Shape shape, int classes);

// make_plan() for a node that meets others with cluster files of their own: with `settings`.
[[nodiscard]] Result<ClusterPlan> make_node_plan(const ClusterConfig& config,
                                                 const std::string& sync, std::uint64_t seed,
                                                 train::Shape shape, int classes);

// make_plan() and make_node_plan() for an own model. BadInput also for a model.start that does not
// fit.
[[nodiscard]] Result<ClusterPlan> make_own_plan(const ClusterConfig& config,
                                                const std::string& sync, std::uint64_t seed,
                                                TensorTable table);
[[nodiscard]] Result<ClusterPlan> make_own_node_plan(const ClusterConfig& config,
                                                     const std::string& sync, std::uint64_t seed,
                                                     TensorTable table);

// BadInput if the target is an accuracy and the loaded data have no held-out samples to measure
// it.
[[nodiscard]] Result<void> check_target(const ClusterConfig& config, const train::DataSplit& data);

// check_target() of an own model. `measured`: a loop offers to evaluate.
[[nodiscard]] Result<void> check_own_target(const ClusterConfig& config, bool measured);

// BadInput for model.kind = "timing", which has nothing to train.
[[nodiscard]] Result<void> require_trainable(const ClusterConfig& config);

// BadInput if a worker has no step time.
[[nodiscard]] Result<void> require_step_times(const ClusterConfig& config);

// make_plan() for a model that is only its size. Requires: config.timing_only().
[[nodiscard]] Result<ClusterPlan> make_timing_plan(const ClusterConfig& config,
                                                   const std::string& sync, std::uint64_t seed);

// The worker of this name; with join = "open" one that the file does not list is added to the plan.
// `like`: as for unlisted_profile(). Returns: its index. BadInput for a name that may not join.
[[nodiscard]] Result<std::uint32_t> find_worker(const ClusterConfig& config, ClusterPlan& plan,
                                                const std::string& name, const std::string& like);

// Worker `index` draws random numbers from the stream of this number: its place in the file, or a
// hash of its name if the file does not list it.
std::uint64_t stream_of(const ClusterPlan& plan, std::uint32_t index);
// That stream before there is a plan. `listed`: so many workers the file has.
std::uint64_t stream_of(std::uint32_t index, std::size_t listed, const std::string& name);

// Deals so many samples out by dataset.partition. `labels`: of each; none where nothing divides
// them. Errors: train::partition_samples().
[[nodiscard]] Result<std::vector<std::vector<std::uint32_t>>> deal_samples(
    const ClusterConfig& config, std::span<const std::int32_t> labels, int classes,
    std::size_t samples, std::size_t workers, std::uint64_t seed);
// The training samples of each worker of the plan: one list a worker. Samples that are dealt out
// are dealt to the listed workers; another worker has all of them.
[[nodiscard]] Result<std::vector<std::vector<std::uint32_t>>> plan_samples(
    const ClusterConfig& config, const ClusterPlan& plan, const train::DataSplit& data);

scheduler::SchedulerOptions scheduler_options(const ClusterConfig& config, const ClusterPlan& plan,
                                              Incarnation incarnation, bool evaluator);
// `save_every`: as in SchedulerOptions. `schema`: what nodes that ask are told, where each worker
// has data of its own.
std::unique_ptr<scheduler::Scheduler> make_scheduler(const ClusterConfig& config,
                                                     const ClusterPlan& plan,
                                                     Incarnation incarnation, bool evaluator,
                                                     Duration save_every = {},
                                                     const std::string& schema = {});

// Of each server.
server::ShardOptions shard_options(const ClusterConfig& config, const ClusterPlan& plan);

// `name`, `endpoint`: as in Hello. `scheduler`: the peer to join.
std::unique_ptr<server::ServerCore> make_server(
    const ClusterConfig& config, const ClusterPlan& plan, Incarnation incarnation,
    const std::string& name, const std::string& endpoint, proto::PeerId scheduler,
    std::unique_ptr<server::Storage> storage = nullptr, const std::string& public_key = {});

// A worker of the plan.
std::unique_ptr<worker::WorkerCore> make_worker(const ClusterConfig& config,
                                                const ClusterPlan& plan, Incarnation incarnation,
                                                const WorkerProfile& profile,
                                                std::shared_ptr<worker::Residual> residual = {});
// The same by name. A worker that the plan does not know has the default codecs.
// `residual`: the part of its updates that an earlier life of this worker did not send, or null.
std::unique_ptr<worker::WorkerCore> make_worker(const ClusterConfig& config,
                                                const ClusterPlan& plan, Incarnation incarnation,
                                                const std::string& name,
                                                std::shared_ptr<worker::Residual> residual = {});

// `held_out`: there are samples to evaluate.
worker::EvaluatorCore make_evaluator(const ClusterConfig& config, const ClusterPlan& plan,
                                     Incarnation incarnation, bool held_out = true);

}  // namespace rubato::cluster
