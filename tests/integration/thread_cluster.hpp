// tests/integration/thread_cluster.hpp - a real cluster in this process: scheduler, evaluator,
// servers and workers, each on its own thread with its own ZeroMQ transport over 127.0.0.1. The
// loops are those of the real processes.
// Threads: the methods belong to the test's thread. What the scheduler knows is published to it.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/run_record.hpp"
#include "cluster/cluster_plan.hpp"
#include "tests/integration/helpers.hpp"
#include "train/data/dataset.hpp"
#include "train/device.hpp"
#include "train/local_trainer.hpp"

namespace rubato::integration {

// Parses a cluster file's text; the test fails if it is bad.
cluster::ClusterConfig parse(const std::string& text);

struct ThreadClusterOptions {
  std::string sync;
  // As nodes of a real run have them: members that lie or hang are acted upon. Empty: they are not.
  std::string settings = {};
  // What a worker trains on, by its index in the plan; not built. Null, or nothing returned: the
  // device of the cluster file. Called on the worker's thread.
  std::function<std::unique_ptr<train::Device>(std::uint32_t)> device = {};
};

class ThreadCluster {
 public:
  // Starts the scheduler, the evaluator and the servers, and waits until both can be reached.
  ThreadCluster(cluster::ClusterConfig config, const ThreadClusterOptions& options);
  // Ends every thread, whatever it is at.
  ~ThreadCluster();
  ThreadCluster(const ThreadCluster&) = delete;
  ThreadCluster& operator=(const ThreadCluster&) = delete;

  const cluster::ClusterConfig& config() const { return config_; }
  const cluster::ClusterPlan& plan() const { return plan_; }
  const train::DataSplit& data() const { return data_; }
  const std::string& scheduler() const { return scheduler_endpoint_; }
  const std::string& server(std::uint32_t index) const { return server_endpoints_.at(index); }

  void start_worker(std::uint32_t index);
  void start_workers();
  // Asks the worker to leave, as Ctrl-C does.
  void interrupt_worker(std::uint32_t index) { workers_.at(index).thread.request_stop(); }
  // Asks the scheduler to end the run.
  void stop() { stop_.request_stop(); }

  using Predicate = std::function<bool(const RunRecord&)>;
  // Waits until the scheduler's record satisfies `predicate`. Returns: false after kPatience.
  bool wait_until(const Predicate& predicate);
  // Steps of all workers, as last reported.
  std::uint64_t steps();
  // Waits for the end of the run. Returns: the record; nothing after kPatience.
  std::optional<RunRecord> wait_for_end();

  // Why a worker ended. Waits for it.
  const Result<std::string>& worker_end(std::uint32_t index);
  // What a server did. Waits for its end.
  const server::ServerStats& server_stats(std::uint32_t index);

 private:
  struct WorkerThread {
    Result<std::string> ended;
    std::jthread thread;
  };
  struct ServerThread {
    server::ServerStats stats;
    std::jthread thread;
  };
  void run_scheduler(std::promise<std::string> endpoint, const std::stop_token& abandon);
  void run_evaluator(const std::stop_token& abandon);
  server::ServerStats run_server(std::uint32_t index, std::promise<std::string> endpoint,
                                 const std::stop_token& abandon);
  Result<train::LocalTrainer> make_trainer(std::uint32_t index) const;
  Result<std::string> run_worker(std::uint32_t index, const std::stop_token& stop);

  cluster::ClusterConfig config_;
  ThreadClusterOptions options_;
  train::DataSplit data_;
  cluster::ClusterPlan plan_;
  std::string scheduler_endpoint_;
  std::vector<std::string> server_endpoints_;
  std::stop_source stop_;

  std::mutex mutex_;  // guards record_ and ended_
  std::condition_variable changed_;
  RunRecord record_;
  bool ended_ = false;

  std::map<std::uint32_t, WorkerThread> workers_;  // by index in the plan
  std::map<std::uint32_t, ServerThread> servers_;
  std::jthread evaluator_thread_;
  std::jthread scheduler_thread_;
};

}  // namespace rubato::integration
