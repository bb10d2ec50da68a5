#include "tests/integration/thread_cluster.hpp"

#include "emulation/device_model.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "cluster/evaluator_node.hpp"
#include "cluster/make_transport.hpp"
#include "cluster/node_loop.hpp"
#include "cluster/plan_training.hpp"
#include "cluster/worker_node.hpp"
#include "sync/factory.hpp"
#include "train/evaluate.hpp"

namespace rubato::integration {
namespace {

constexpr const char* kAnyPort = "tcp://127.0.0.1:*";

// On a thread of the cluster nothing is expected to fail but what a test is about.
template <class T>
T expect(Result<T> result) {
  RUBATO_CHECK(result, result.error().message.c_str());
  return std::move(*result);
}

void expect(const Result<void>& result) {
  RUBATO_CHECK(result, result.error().message.c_str());
}

}  // namespace

cluster::ClusterConfig parse(const std::string& text) {
  auto config = cluster::parse_cluster(text, "test.toml", "");
  REQUIRE_MESSAGE(config, (config ? "" : config.error().message));
  return *config;
}

ThreadCluster::ThreadCluster(cluster::ClusterConfig config, const ThreadClusterOptions& options)
    : config_(std::move(config)),
      options_(options),
      data_(expect(train::load_dataset(config_.dataset, config_.seed))),
      plan_(expect(cluster::make_plan(config_, options.sync, config_.seed, data_.train.shape,
                                      data_.train.classes))) {
  plan_.settings = options.settings;
  std::promise<std::string> listening;
  auto endpoint = listening.get_future();
  scheduler_thread_ =
      std::jthread([this, promise = std::move(listening)](const std::stop_token& abandon) mutable {
        run_scheduler(std::move(promise), abandon);
      });
  scheduler_endpoint_ = endpoint.get();
  evaluator_thread_ =
      std::jthread([this](const std::stop_token& abandon) { run_evaluator(abandon); });
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(config_.servers.count); ++i) {
    std::promise<std::string> bound;
    endpoint = bound.get_future();
    auto& server = servers_[i];
    server.thread = std::jthread(
        [this, i, &server, promise = std::move(bound)](const std::stop_token& abandon) mutable {
          server.stats = run_server(i, std::move(promise), abandon);
        });
    server_endpoints_.push_back(endpoint.get());
  }
}

ThreadCluster::~ThreadCluster() {
  for (auto& [index, worker] : workers_) worker.thread.request_stop();
  for (auto& [index, server] : servers_) server.thread.request_stop();
}

void ThreadCluster::run_scheduler(std::promise<std::string> endpoint,
                                  const std::stop_token& abandon) {
  const auto transport = cluster::make_transport();
  endpoint.set_value(expect(transport->listen(kAnyPort)));
  scheduler::Scheduler scheduler(
      cluster::scheduler_options(config_, plan_, os_random(), true),
      sync::make_tuner(plan_.sync, config_.sync,
                       {.parameter_bytes = plan_.parameters * sizeof(float)}));
  cluster::NodeLoop loop(*transport, scheduler);
  while (!scheduler.over() && !abandon.stop_requested()) {
    if (stop_.stop_requested()) scheduler.stop(steady_now(), "the test ends it");
    expect(loop.turn());
    while (scheduler.poll_log()) {
    }
    const std::lock_guard lock(mutex_);
    record_ = scheduler.record();
    ended_ = scheduler.over();
    changed_.notify_all();
  }
  loop.flush();  // the last Stop
}

void ThreadCluster::run_evaluator(const std::stop_token& abandon) {
  const auto transport = cluster::make_transport();
  const auto device = expect(cluster::plan_device(config_, plan_, train::kEvaluationBatch));
  auto core = cluster::make_evaluator(config_, plan_, os_random());
  expect(cluster::run_evaluator(*transport, core, device.get(), data_.held_out,
                                {.scheduler = scheduler_endpoint_, .facts = {}}, abandon));
}

server::ServerStats ThreadCluster::run_server(std::uint32_t index,
                                              std::promise<std::string> endpoint,
                                              const std::stop_token& abandon) {
  const auto transport = cluster::make_transport();
  const std::string bound = expect(transport->listen(kAnyPort));
  endpoint.set_value(bound);
  const auto scheduler = expect(transport->connect(scheduler_endpoint_));
  const auto core = cluster::make_server(config_, plan_, os_random(),
                                         fmt::format("server-{}", index), bound, scheduler);
  core->on_start(steady_now());
  cluster::NodeLoop loop(*transport, *core);
  expect(loop.run(abandon));
  return core->stats();
}

void ThreadCluster::start_worker(std::uint32_t index) {
  auto& worker = workers_[index];
  worker.thread = std::jthread([this, index, &worker](const std::stop_token& stop) {
    worker.ended = run_worker(index, stop);
  });
}

void ThreadCluster::start_workers() {
  for (std::uint32_t i = 0; i < plan_.workers.size(); ++i) start_worker(i);
}

Result<train::LocalTrainer> ThreadCluster::make_trainer(std::uint32_t index) const {
  RUBATO_ASSIGN(auto samples, cluster::plan_samples(config_, plan_, data_));
  auto device = options_.device ? options_.device(index) : nullptr;
  if (!device)
    return cluster::make_trainer(config_, plan_, index, data_.train, std::move(samples[index]));
  return cluster::make_trainer(config_, plan_, index, data_.train, std::move(samples[index]),
                               std::move(device));
}

Result<std::string> ThreadCluster::run_worker(std::uint32_t index, const std::stop_token& stop) {
  RUBATO_ASSIGN(auto trainer, make_trainer(index));
  const auto core = cluster::make_worker(config_, plan_, os_random(), plan_.workers[index].name);
  auto times = emulation::make_step_times(plan_, index);
  const auto transport = cluster::make_transport();
  return cluster::run_worker(
      *transport, *core, trainer,
      {scheduler_endpoint_, [&times](Instant now, int batch) { return times.next(now, batch); }},
      stop);
}

bool ThreadCluster::wait_until(const Predicate& predicate) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(kPatience.ns),
                           [&] { return predicate(record_); });
}

std::uint64_t ThreadCluster::steps() {
  const std::lock_guard lock(mutex_);
  return record_.steps;
}

std::optional<RunRecord> ThreadCluster::wait_for_end() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(kPatience.ns), [this] { return ended_; }))
    return std::nullopt;
  return record_;
}

const Result<std::string>& ThreadCluster::worker_end(std::uint32_t index) {
  auto& worker = workers_.at(index);
  if (worker.thread.joinable()) worker.thread.join();
  return worker.ended;
}

const server::ServerStats& ThreadCluster::server_stats(std::uint32_t index) {
  auto& server = servers_.at(index);
  if (server.thread.joinable()) server.thread.join();
  return server.stats;
}

}  // namespace rubato::integration
