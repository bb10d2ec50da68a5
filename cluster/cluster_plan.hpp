// cluster/cluster_plan.hpp - what every node of a run derives from the cluster file and the seed:
// the model, its initial parameters, who holds which samples, and the options of each core. The
// virtual cluster and the real processes build their cores here, so that they are the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/shareable.hpp"
#include "cluster/cluster_config.hpp"
#include "server/scheduler.hpp"
#include "server/server_core.hpp"
#include "train/dataset.hpp"
#include "train/local_trainer.hpp"
#include "train/model_spec.hpp"
#include "worker/evaluator_core.hpp"
#include "worker/worker_core.hpp"

namespace rubato::cluster {

// Streams of random numbers, so that no part's draws move another's.
enum class Stream : std::uint64_t { Incarnation = 1, Sampler = 2, StepTime = 3, Latency = 4 };

struct ClusterPlan {
  std::uint64_t cluster = 0;  // cluster id
  std::uint64_t seed = 0;
  std::string sync;
  // shared_settings(), where nodes meet that were not made from one file; empty elsewhere.
  std::string settings;
  train::ModelSpec spec;
  std::uint64_t parameters = 0;
  std::vector<WorkerProfile> workers;
  int batch = 1;            // samples of a mini-batch, as configured
  std::size_t samples = 0;  // of training data, all workers together; only the scheduler asks
  // Only the timing counts: a chunk that stands for every payload; null in a real run.
  std::shared_ptr<const Floats> blank;
};

// BadInput for a sync model that does not exist, or that needs a loss, a target or data where
// model.kind = "timing" has none.
[[nodiscard]] Result<void> check_sync(const ClusterConfig& config, const std::string& sync);

// BadInput for an unknown sync model or a model that does not fit the data.
[[nodiscard]] Result<ClusterPlan> make_plan(const ClusterConfig& config, const std::string& sync,
                                            std::uint64_t seed, train::Shape shape, int classes);

// The same for a node that meets others, which were made from files of their own: with `settings`.
[[nodiscard]] Result<ClusterPlan> make_node_plan(const ClusterConfig& config,
                                                 const std::string& sync, std::uint64_t seed,
                                                 train::Shape shape, int classes);

// BadInput where an accuracy is to be reached and the loaded data hold nothing out to measure it
// on.
[[nodiscard]] Result<void> check_target(const ClusterConfig& config, const train::DataSplit& data);

// BadInput where there is nothing to train: model.kind = "timing".
[[nodiscard]] Result<void> require_trainable(const ClusterConfig& config);

// make_plan() for a model that is only its size. Requires: config.timing_only().
[[nodiscard]] Result<ClusterPlan> make_timing_plan(const ClusterConfig& config,
                                                   const std::string& sync, std::uint64_t seed);

// Who holds which training samples: one list a worker of the plan.
[[nodiscard]] Result<std::vector<std::vector<std::uint32_t>>> plan_samples(
    const ClusterConfig& config, const ClusterPlan& plan, const train::Dataset& train);

server::SchedulerOptions scheduler_options(const ClusterConfig& config, const ClusterPlan& plan,
                                           Incarnation incarnation, bool evaluator);
std::unique_ptr<server::Scheduler> make_scheduler(const ClusterConfig& config,
                                                  const ClusterPlan& plan, Incarnation incarnation,
                                                  bool evaluator);

// `name`, `endpoint`: as in Hello. `scheduler`: the peer to join.
std::unique_ptr<server::ServerCore> make_server(const ClusterConfig& config,
                                                const ClusterPlan& plan, Incarnation incarnation,
                                                const std::string& name,
                                                const std::string& endpoint,
                                                proto::PeerId scheduler);

// A worker of the plan.
std::unique_ptr<worker::WorkerCore> make_worker(const ClusterConfig& config,
                                                const ClusterPlan& plan, Incarnation incarnation,
                                                const WorkerProfile& profile,
                                                std::shared_ptr<worker::Residual> residual = {});
// The same by name; one that the plan does not know has the codecs that are the default.
// `residual`: what an earlier life of this worker has not sent; may be null.
std::unique_ptr<worker::WorkerCore> make_worker(const ClusterConfig& config,
                                                const ClusterPlan& plan, Incarnation incarnation,
                                                const std::string& name,
                                                std::shared_ptr<worker::Residual> residual = {});

worker::EvaluatorCore make_evaluator(const ClusterConfig& config, const ClusterPlan& plan,
                                     Incarnation incarnation);

// The trainer of worker `index`, on its own samples and its own stream. `options`: of
// its device; the same bits for the same seed with the default ones alone.
[[nodiscard]] Result<train::LocalTrainer> make_trainer(const ClusterConfig& config,
                                                       const ClusterPlan& plan, std::uint32_t index,
                                                       const train::Dataset& train,
                                                       std::vector<std::uint32_t> samples,
                                                       const train::DeviceOptions& options = {});

}  // namespace rubato::cluster
