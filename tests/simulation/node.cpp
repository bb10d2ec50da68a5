#include "tests/simulation/node.hpp"

#include <fmt/format.h>

#include "base/config.hpp"
#include "proto/compression.hpp"
#include "proto/shard_map.hpp"
#include "sync/option_table.hpp"

namespace rubato::simulation {
namespace {

proto::JoinTiming join_timing() {
  proto::JoinTiming timing;
  timing.ask_after = timing.heartbeat_every * 2;
  timing.rejoin_for = Duration::from_seconds(600);
  return timing;
}

proto::Compression compression_of(const std::string& name) {
  for (const auto codec : {proto::PayloadCodec::F16, proto::PayloadCodec::Bf16,
                           proto::PayloadCodec::Int8, proto::PayloadCodec::TopK})
    if (name == proto::codec_name(codec)) return {.codec = codec};
  return {};
}

proto::AveragedElements averaged_of(const Plan& plan) {
  std::vector<ElementRange> ranges;
  if (plan.averaged)
    for (auto at = kAveragedElement; at < parameters_of(plan); at += kChunkElements)
      ranges.push_back({at, at + 1});
  return proto::AveragedElements(std::move(ranges));
}

double momentum_of(const Plan& plan) {
  return sync::server_momentum(plan.sync, plan.workers);
}

std::string key_of(const Node& node) {
  std::string key = node.name;
  key.resize(proto::kKeyCharacters, '.');
  return key;
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
  // The defaults, but for what would take longer than a plan lasts.
  std::string text = fmt::format(
      "ssp.staleness = {}\nadsp.check_period_seconds = 10\nadsp.overlap = {}\n"
      "semi-sync.epochs = 0.1\n",
      plan.staleness, plan.overlap);
  for (const auto& row : sync::option_rows())
    if (row.key == "local_steps") text += fmt::format("{}.local_steps = 4\n", row.of);
  const auto document = Config::parse(text, "plan");
  return sync::read_options(document->root());
}

std::unique_ptr<scheduler::Scheduler> make_scheduler(const Plan& plan, Incarnation run) {
  scheduler::SchedulerOptions options;
  options.cluster = kCluster;
  options.incarnation = run;
  options.parameters = parameters_of(plan);
  options.servers = static_cast<std::uint32_t>(plan.servers);
  options.workers = static_cast<std::uint32_t>(plan.workers);
  options.evaluations = scheduler::SchedulerOptions::Evaluations::Training;
  options.batch = kBatch;
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
                                 .batch = static_cast<int>(options.batch),
                                 .momentum = momentum_of(plan)}));
}

ElementRange shard_of(const Plan& plan, std::uint32_t index) {
  return proto::shard_range(parameters_of(plan), index, static_cast<std::uint32_t>(plan.servers));
}

server::ShardOptions shard_options_of(const Plan& plan) {
  server::ShardOptions options;
  options.chunk_bytes = kChunkElements * sizeof(float);
  options.optimizer.global_rate = 1;
  if (const double momentum = momentum_of(plan); momentum > 0) {
    options.optimizer.kind = server::OptimizerKind::Nesterov;
    options.optimizer.momentum = momentum;
  }
  options.average = sync::averages(plan.sync);
  options.keeps_initial = sync::goes_back(plan.sync, sync_options_of(plan)) || plan.seeds;
  return options;
}

std::unique_ptr<server::ServerCore> make_server(const Plan& plan, const Node& node,
                                                Incarnation incarnation, proto::PeerId scheduler,
                                                std::unique_ptr<server::Storage> storage, Bug bug) {
  server::ServerOptions options;
  options.cluster = kCluster;
  options.incarnation = incarnation;
  options.name = options.endpoint = node.name;
  options.parameters = parameters_of(plan);
  options.shard = shard_options_of(plan);
  options.seeds = plan.seeds;
  options.averaged = averaged_of(plan);
  if (plan.keys) options.public_key = key_of(node);
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
  options.batch = kBatch;
  options.up = compression_of(plan.up);
  options.down = compression_of(plan.down);
  options.auto_up = plan.up == "auto";
  options.auto_down = plan.down == "auto";
  options.averaged = averaged_of(plan);
  options.alignment = sync::measures_alignment(plan.sync);
  if (const auto weight = sync::elastic_weight(plan.sync, sync)) {
    options.elastic = true;
    options.exchange = !sync::takes_reply(plan.sync);
    options.weight = *weight;
  } else {
    options.residual = node.residual;
  }
  options.chunk_bytes = kChunkElements * sizeof(float);
  options.overlap = sync::overlap(plan.sync, sync);
  options.timing = join_timing();
  options.looks = true;
  options.seeds = plan.seeds;
  return std::make_unique<worker::WorkerCore>(options, make_rule(plan.sync, sync, bug));
}

proto::Identity identity_of(const Node& node) {
  return {.role = node.role, .name = node.name, .public_key = key_of(node)};
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
