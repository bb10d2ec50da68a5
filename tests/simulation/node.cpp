#include "tests/simulation/node.hpp"

#include <fmt/format.h>

#include "sync/adsp.hpp"
#include "sync/ssp.hpp"

namespace rubato::simulation {
namespace {

const std::string kSettings = "simulated = true\n";

// As cluster/cluster_plan.cpp has them for real nodes.
proto::JoinTiming join_timing() {
  proto::JoinTiming timing;
  timing.ask_after = timing.heartbeat_every * 2;
  timing.rejoin_for = Duration::from_seconds(600);
  return timing;
}

}  // namespace

int code_of(ErrorCode code) {
  const bool to_mend =
      code == ErrorCode::BadInput || code == ErrorCode::Refused || code == ErrorCode::Unsupported;
  return to_mend ? 2 : 1;
}

std::uint64_t parameters_of(const Plan& plan) {
  return static_cast<std::uint64_t>(plan.servers) * kChunksOfShard * kChunkElements;
}

sync::Options sync_options_of(const Plan& plan) {
  sync::Options options;
  options.of<sync::SspOptions>().staleness = plan.staleness;
  options.of<sync::AdspOptions>().check_period = Duration::from_seconds(10);
  options.of<sync::AdspOptions>().overlap = plan.overlap;
  return options;
}

std::unique_ptr<scheduler::Scheduler> make_scheduler(const Plan& plan, Incarnation run) {
  scheduler::SchedulerOptions options;
  options.cluster = kCluster;
  options.incarnation = run;
  options.parameters = parameters_of(plan);
  options.servers = static_cast<std::uint32_t>(plan.servers);
  options.workers = static_cast<std::uint32_t>(plan.workers);
  options.evaluations = scheduler::SchedulerOptions::Evaluations::Training;
  options.batch = 32;
  options.save_every = Duration::from_seconds(plan.snapshot_every);
  options.watch = scheduler::WatchOptions{};
  options.settings = kSettings;
  options.sync = plan.sync;
  options.journal = plan.journal;
  options.seeds = plan.seeds;
  return std::make_unique<scheduler::Scheduler>(
      options, sync::make_tuner(plan.sync, sync_options_of(plan),
                                {.parameter_bytes = options.parameters * sizeof(float),
                                 .batches = 100,
                                 .batch = static_cast<int>(options.batch)}));
}

std::unique_ptr<server::ServerCore> make_server(const Plan& plan, const Node& node,
                                                Incarnation incarnation, proto::PeerId scheduler,
                                                std::unique_ptr<server::Storage> storage, Bug bug) {
  server::ServerOptions options;
  options.cluster = kCluster;
  options.incarnation = incarnation;
  options.name = options.endpoint = node.name;
  options.parameters = parameters_of(plan);
  options.shard.chunk_bytes = kChunkElements * sizeof(float);
  options.shard.optimizer.global_rate = 1;
  options.seeds = options.shard.keeps_initial = plan.seeds;
  options.journal = plan.journal;
  options.timing = join_timing();
  options.settings = kSettings;
  options.form = sync::commit_form(plan.sync, sync_options_of(plan));
  const auto zeros = [](ElementRange range) { return std::vector<float>(range.count()); };
  return std::make_unique<server::ServerCore>(options, zeros,
                                              make_gate(plan.sync, sync_options_of(plan), bug),
                                              scheduler, std::move(storage));
}

std::unique_ptr<worker::WorkerCore> make_worker(const Plan& plan, const Node& node,
                                                Incarnation incarnation, Bug bug) {
  const sync::Options sync = sync_options_of(plan);
  worker::WorkerOptions options;
  options.cluster = kCluster;
  options.incarnation = incarnation;
  options.name = node.name;
  options.settings = kSettings;
  options.parameters = parameters_of(plan);
  options.chunk_bytes = kChunkElements * sizeof(float);
  options.overlap = sync::overlap(plan.sync, sync);
  options.timing = join_timing();
  options.looks = true;
  options.seeds = plan.seeds;
  return std::make_unique<worker::WorkerCore>(options, make_rule(plan.sync, sync, bug));
}

std::string state_text(const scheduler::Scheduler& scheduler, Instant run_now) {
  std::string text = scheduler.status(run_now) + '\n';
  if (scheduler.started() && !scheduler.stopped())
    if (const auto wakeup = scheduler.poll_wakeup())
      text += fmt::format("wakes at {} ns\n", wakeup->ns);
  const RunRecord record = scheduler.record();
  text += fmt::format("setbacks {}, evaluations {}, decisions {}\n", record.setbacks,
                      record.evaluations.size(), record.decisions.size());
  for (const WorkerRecord& worker : record.workers)
    text += fmt::format("worker {} {}: {}, {} steps, {} commits, joined {}, left {}\n",
                        worker.number, worker.id, worker.fate, worker.steps, worker.commits,
                        worker.joined_seconds, worker.left_seconds.value_or(-1));
  return text;
}

}  // namespace rubato::simulation
