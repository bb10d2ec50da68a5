#include "cluster/cluster_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/checksum.hpp"
#include "base/rng.hpp"
#include "base/words.hpp"
#include "cluster/shared_settings.hpp"
#include "sync/factory.hpp"
#include "train/model/model_file.hpp"

namespace rubato::cluster {

namespace {

// Elastic commits are parameters. Error feedback and a velocity must not add to them.
Result<void> check_elastic(const ClusterConfig& config, const std::string& sync) {
  if (!sync::elastic_weight(sync, config.sync)) return {};
  if (server::kind_of(config.optimizer) != ServerOptimizer::Sgd)
    return fail(ErrorCode::BadInput,
                fmt::format("optimizer.kind: {} exchanges parameters and has no use for a server "
                            "optimizer; leave it out, or choose another model",
                            sync));
  for (const WorkerProfile& worker : all_profiles(config))
    if (worker.codecs.auto_up || worker.codecs.up.codec != proto::PayloadCodec::F32)
      return fail(
          ErrorCode::BadInput,
          fmt::format("wire.up = \"{}\" for worker {}: {} commits parameters, which are "
                      "not compressed; use f32",
                      worker.codecs.auto_up ? "auto" : proto::codec_name(worker.codecs.up.codec),
                      worker.name, sync));
  return {};
}

// early_forward needs steps that begin while a reply arrives.
Result<void> check_early_forward(const ClusterConfig& config, const std::string& sync) {
  if (!config.training.early_forward) return {};
  if (sync::overlap(sync, config.sync) == sync::Overlap::Always)
    return fail(ErrorCode::BadInput,
                fmt::format("training.early_forward: with sync.{}.overlap a worker trains on while "
                            "parameters arrive and waits for none; leave one of them out",
                            sync));
  if (sync::elastic_weight(sync, config.sync))
    return fail(ErrorCode::BadInput,
                fmt::format("training.early_forward: {} makes a worker's parameters of the whole "
                            "reply, before any step; leave it out, or choose another model",
                            sync));
  return {};
}

// The values that the run begins with, where a file has them.
std::string start_setting(const ClusterPlan& plan) {
  if (!plan.start.values) return {};
  return fmt::format("model.start = values {:016x}\n",
                     checksum(std::as_bytes(std::span(*plan.start.values))));
}

Result<ClusterPlan> start_plan(const ClusterConfig& config, const std::string& sync,
                               std::uint64_t seed) {
  RUBATO_TRY(check_sync(config, sync));
  ClusterPlan plan;
  plan.cluster = proto::cluster_id(config.name);
  plan.seed = seed;
  plan.sync = sync;
  plan.workers = all_profiles(config);
  plan.listed = static_cast<std::size_t>(config.worker_count());
  plan.batch = config.training.batch;
  return plan;
}

}  // namespace

Result<void> check_sync(const ClusterConfig& config, const std::string& sync) {
  RUBATO_TRY(sync::find_model(sync));
  RUBATO_TRY(check_elastic(config, sync));
  RUBATO_TRY(check_early_forward(config, sync));
  if (!config.timing_only()) return {};
  const auto lacks = [](std::string_view key, std::string_view what) {
    return fail(ErrorCode::BadInput,
                fmt::format("{}: model.kind = \"timing\" has no {}", key, what));
  };
  if (config.stop.target_loss)
    return lacks("stop.target_loss", "loss; leave it out, and stop by max_seconds");
  if (config.stop.target_accuracy)
    return lacks("stop.target_accuracy", "accuracy; leave it out, and stop by max_seconds");
  const auto samples = static_cast<std::uint64_t>(config.dataset.samples);
  if (const auto lack = sync::lack(sync, config.sync, samples)) return lacks(lack->key, lack->what);
  return {};
}

Result<void> check_target(const ClusterConfig& config, const train::DataSplit& data) {
  if (data.held_out.size() > 0) return {};
  const auto refused = [&](const char* key, double target) {
    return fail(
        ErrorCode::BadInput,
        fmt::format("stop.target_{} = {}: is measured on held-out data, of which "
                    "dataset.held_out = {} leaves none of {}; raise it",
                    key, target, config.dataset.held_out, counted(data.train.size(), "sample")));
  };
  if (config.stop.target_accuracy) return refused("accuracy", *config.stop.target_accuracy);
  for (const ClassFigure& figure : kClassFigures)
    if (const auto& target = config.stop.class_targets.*figure.target)
      return refused(figure.key, *target);
  return {};
}

Result<void> check_own_target(const ClusterConfig& config, bool measured) {
  if (!config.stop.target_accuracy || measured) return {};
  return fail(ErrorCode::BadInput,
              "stop.target_accuracy: no worker measures; give rubato.Worker evaluate =, or stop by "
              "target_loss, which is the training loss then");
}

Result<void> require_trainable(const ClusterConfig& config) {
  if (!config.timing_only()) return {};
  return fail(ErrorCode::BadInput,
              "model.kind = \"timing\": there is nothing to train in a model that is only its "
              "size; use rubato compare, or another kind");
}

Result<void> require_step_times(const ClusterConfig& config) {
  const WorkerGroup* const untimed = find_untimed(config);
  if (!untimed) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("{}: workers.step_seconds: '{}' has none, and virtual time goes by it; "
                          "give it, or device = a name of the catalog",
                          config.file, untimed->name));
}

Result<ClusterPlan> make_timing_plan(const ClusterConfig& config, const std::string& sync,
                                     std::uint64_t seed) {
  RUBATO_ASSIGN(auto plan, start_plan(config, sync, seed));
  plan.parameters = config.model.parameters;
  plan.samples = static_cast<std::size_t>(config.dataset.samples);
  plan.blank = std::make_shared<const Floats>(
      std::min<std::uint64_t>(config.chunk_bytes / sizeof(float), plan.parameters));
  return plan;
}

Result<ClusterPlan> make_plan(const ClusterConfig& config, const std::string& sync,
                              std::uint64_t seed, train::Shape shape, int classes) {
  RUBATO_TRY(require_trainable(config));
  RUBATO_ASSIGN(auto plan, start_plan(config, sync, seed));
  RUBATO_ASSIGN(plan.spec, train::make_model(config.model, shape, classes));
  RUBATO_ASSIGN(plan.start, model_start(config, plan.spec, seed));
  plan.parameters = plan.start.trained.count();
  return plan;
}

Result<ClusterPlan> make_node_plan(const ClusterConfig& config, const std::string& sync,
                                   std::uint64_t seed, train::Shape shape, int classes) {
  RUBATO_ASSIGN(auto plan, make_plan(config, sync, seed, shape, classes));
  plan.settings = shared_settings(config, sync, seed) + start_setting(plan);
  if (!config.model.layers.empty()) {  // each box has a file of its own
    const std::string layers = train::layers_text(plan.spec);
    plan.settings +=
        fmt::format("model.layers = {:016x}\n", checksum(std::as_bytes(std::span(layers))));
  }
  return plan;
}

Result<ClusterPlan> make_own_plan(const ClusterConfig& config, const std::string& sync,
                                  std::uint64_t seed, TensorTable table) {
  RUBATO_ASSIGN(auto plan, start_plan(config, sync, seed));
  plan.parameters = table.parameters();
  if (plan.parameters > train::kValuesMax)
    return fail(ErrorCode::BadInput,
                fmt::format("the model has {} parameters, and {} at most can be trained",
                            plan.parameters, train::kValuesMax));
  plan.start.trained = train::TrainedPart(plan.parameters);
  RUBATO_ASSIGN(plan.start.values, own_start(config, table));
  plan.own = std::make_shared<const TensorTable>(std::move(table));
  return plan;
}

Result<ClusterPlan> make_own_node_plan(const ClusterConfig& config, const std::string& sync,
                                       std::uint64_t seed, TensorTable table) {
  RUBATO_ASSIGN(auto plan, make_own_plan(config, sync, seed, std::move(table)));
  const std::string text = to_text(*plan.own);
  plan.settings = shared_settings(config, sync, seed) +
                  fmt::format("model.table = {:016x}\n", checksum(std::as_bytes(std::span(text)))) +
                  start_setting(plan);
  return plan;
}

Result<std::uint32_t> find_worker(const ClusterConfig& config, ClusterPlan& plan,
                                  const std::string& name, const std::string& like) {
  std::string names;
  for (std::uint32_t i = 0; i < plan.workers.size(); ++i) {
    if (plan.workers[i].name == name) {
      if (like.empty()) return i;
      return fail(
          ErrorCode::BadInput,
          fmt::format("--like {}: worker {} is in the cluster file; remove it", like, name));
    }
    if (i < 8) names += (i ? ", " : "") + plan.workers[i].name;
  }
  if (!config.open)
    return fail(ErrorCode::BadInput,
                fmt::format("--name {}: the cluster file has no such worker; it has {}{}; with "
                            "join = \"open\" others may join",
                            name, names, plan.workers.size() > 8 ? ", ..." : ""));
  RUBATO_ASSIGN(auto profile, unlisted_profile(config, name, like));
  plan.workers.push_back(std::move(profile));
  return static_cast<std::uint32_t>(plan.workers.size() - 1);
}

std::uint64_t stream_of(const ClusterPlan& plan, std::uint32_t index) {
  return stream_of(index, plan.listed, plan.workers[index].name);
}

std::uint64_t stream_of(std::uint32_t index, std::size_t listed, const std::string& name) {
  if (index < listed) return index;
  constexpr std::uint64_t kByName = std::uint64_t{1} << 63;  // no place in a file
  return kByName | checksum(std::as_bytes(std::span(name)));
}

Result<std::vector<std::vector<std::uint32_t>>> deal_samples(const ClusterConfig& config,
                                                             std::span<const std::int32_t> labels,
                                                             int classes, std::size_t samples,
                                                             std::size_t workers,
                                                             std::uint64_t seed) {
  const std::vector<std::int32_t> alike(labels.empty() ? samples : 0);
  const bool by_speed = config.partition.kind == train::Partition::Kind::Slowest;
  return train::partition_samples(labels.empty() ? alike : labels, labels.empty() ? 1 : classes,
                                  static_cast<int>(workers), config.partition, seed,
                                  by_speed ? slowest_workers(config) : std::vector<bool>());
}

Result<std::vector<std::vector<std::uint32_t>>> plan_samples(const ClusterConfig& config,
                                                             const ClusterPlan& plan,
                                                             const train::DataSplit& data) {
  std::vector<std::vector<std::uint32_t>> samples;
  if (data.boxes.empty()) {
    const bool classes = data.train.task() == Task::Classification;
    RUBATO_ASSIGN(samples,
                  deal_samples(config,
                               classes ? std::span<const std::int32_t>(data.train.labels)
                                       : std::span<const std::int32_t>(),
                               data.train.classes, data.train.size(), plan.listed, plan.seed));
    std::vector<std::uint32_t> all(data.train.size());
    std::iota(all.begin(), all.end(), 0u);
    samples.resize(plan.workers.size(), all);
    return samples;
  }
  std::uint32_t next = 0;
  for (const std::size_t count : data.boxes) {
    auto& own = samples.emplace_back(count);
    std::iota(own.begin(), own.end(), next);
    next += static_cast<std::uint32_t>(count);
  }
  return samples;
}

namespace {

// Of an own model: where a loop can measure.
bool measured_by_workers(const ClusterConfig& config, const ClusterPlan& plan) {
  if (!plan.own) return config.own_data();
  return std::ranges::any_of(plan.held_out, [](const auto& worker) { return worker.second > 0; });
}

// The file's, or what the sync model needs. That is no momentum where workers may have one of
// their own, nor in an open cluster: nobody knows how many workers join it.
server::OptimizerOptions optimizer_of(const ClusterConfig& config, const std::string& sync) {
  server::OptimizerOptions options = config.optimizer;
  const bool plain =
      !config.own_model() && config.training.optimizer.kind == train::LocalOptimizerKind::Sgd;
  if (options.kind || config.open || !plain) return options;
  const double momentum = sync::server_momentum(sync, config.worker_count());
  if (momentum == 0) return options;
  options.kind = ServerOptimizer::Nesterov;
  options.momentum = momentum;
  return options;
}

}  // namespace

scheduler::SchedulerOptions scheduler_options(const ClusterConfig& config, const ClusterPlan& plan,
                                              Incarnation incarnation, bool evaluator) {
  scheduler::SchedulerOptions options;
  options.settings = plan.settings;
  options.cluster = plan.cluster;
  options.incarnation = incarnation;
  options.parameters = plan.parameters;
  options.servers = static_cast<std::uint32_t>(config.servers.count);
  options.addresses = config.servers.addresses;
  options.workers = static_cast<std::uint32_t>(config.start_count());
  options.open = config.open;
  if (!config.open)
    for (const auto& worker : worker_profiles(config)) options.listed.push_back(worker.name);
  for (const auto& worker : all_profiles(config)) options.order.push_back(worker.name);
  options.evaluations = evaluator ? scheduler::SchedulerOptions::Evaluations::Evaluator
                        : measured_by_workers(config, plan)
                            ? scheduler::SchedulerOptions::Evaluations::Workers
                            : scheduler::SchedulerOptions::Evaluations::Training;
  for (const auto& [worker, samples] : plan.described)
    options.held_out[worker] = train::held_out_of(samples, config.dataset.held_out);
  if (plan.own) options.held_out = plan.held_out;
  options.seeds = plan.own && !plan.start.values;
  options.batch = static_cast<std::uint32_t>(config.training.batch);
  options.evaluation_interval = Duration::from_seconds(config.evaluation.interval_seconds);
  options.stop = config.stop;
  options.task = config.dataset.task;
  options.lost_after = Duration::from_seconds(config.silence_seconds);
  options.absent_max = Duration::from_seconds(config.servers.absent_seconds);
  options.workers_absent_max = Duration::from_seconds(config.workers_absent_seconds);
  options.sync = plan.sync;
  options.seed = plan.seed;
  if (!plan.settings.empty())
    options.watch = {.stalled = Duration::from_seconds(config.stalled_seconds),
                     .first_commit = Duration::from_seconds(config.first_commit_seconds)};
  return options;
}

std::unique_ptr<scheduler::Scheduler> make_scheduler(const ClusterConfig& config,
                                                     const ClusterPlan& plan,
                                                     Incarnation incarnation, bool evaluator,
                                                     Duration save_every,
                                                     const std::string& schema) {
  auto options = scheduler_options(config, plan, incarnation, evaluator);
  options.save_every = save_every;
  options.journal = config.snapshot.journal;
  options.schema = schema;
  return std::make_unique<scheduler::Scheduler>(
      options,
      sync::make_tuner(
          plan.sync, config.sync,
          {.parameter_bytes = plan.parameters * sizeof(float),
           .batches = std::max(1.0, static_cast<double>(plan.samples) / config.training.batch),
           .batch = config.training.batch,
           .momentum = server::momentum_of(optimizer_of(config, plan.sync))}));
}

namespace {

// How often a node speaks to its scheduler, and how long it goes on without.
proto::JoinTiming join_timing(const ClusterConfig& config, const ClusterPlan& plan,
                              proto::JoinTiming timing) {
  const auto silence = Duration::from_seconds(config.silence_seconds);
  timing.hello_every = std::min(timing.hello_every, silence * 0.1);
  timing.heartbeat_every = std::min(timing.heartbeat_every, silence * 0.2);
  // A real node notices a scheduler that is gone (cluster/lookout.hpp).
  if (!plan.settings.empty()) timing.ask_after = timing.heartbeat_every * 2;
  const auto absent = Duration::from_seconds(config.servers.absent_seconds);
  timing.forsaken_after = std::max(absent, timing.heartbeat_every * 5);
  timing.rejoin_for = std::max(absent, timing.give_up_after);
  return timing;
}

proto::AveragedElements averaged_of(const ClusterPlan& plan) {
  return plan.own ? proto::AveragedElements(plan.own->averaged()) : proto::AveragedElements();
}

}  // namespace

server::ShardOptions shard_options(const ClusterConfig& config, const ClusterPlan& plan) {
  return {.chunk_bytes = config.chunk_bytes,
          .optimizer = optimizer_of(config, plan.sync),
          .average = config.evaluation.average || sync::averages(plan.sync),
          // Nobody can make the initial values of an own model anew.
          .keeps_initial = sync::goes_back(plan.sync, config.sync) || plan.own,
          .blank = plan.blank};
}

std::unique_ptr<server::ServerCore> make_server(
    const ClusterConfig& config, const ClusterPlan& plan, Incarnation incarnation,
    const std::string& name, const std::string& endpoint, proto::PeerId scheduler,
    std::unique_ptr<server::Storage> storage, const std::string& public_key) {
  server::ServerOptions options;
  options.public_key = public_key;
  options.settings = plan.settings;
  options.cluster = plan.cluster;
  options.incarnation = incarnation;
  options.name = name;
  options.endpoint = endpoint;
  options.parameters = plan.parameters;
  options.shard = shard_options(config, plan);
  options.averaged = averaged_of(plan);
  options.seeds = plan.own && !plan.start.values;
  options.journal = config.snapshot.journal;
  options.form = sync::commit_form(plan.sync, config.sync);
  options.update_limit = config.servers.update_limit;
  options.reports = !plan.settings.empty();
  if (config.stalled_seconds > 0)  // the scheduler warns after a third of it
    options.tell_wait_after =
        std::min(options.tell_wait_after, Duration::from_seconds(config.stalled_seconds / 3));
  options.timing = join_timing(config, plan, options.timing);
  auto initial = [spec = plan.spec, seed = plan.seed, start = plan.start,
                  own = plan.own](ElementRange range) {
    if (own && !start.values) return std::vector<float>(range.count());  // until a worker seeds
    return start.values ? start.trained.of(*start.values, range)
                        : train::initial_parameters(spec, seed, range);
  };
  return std::make_unique<server::ServerCore>(options, std::move(initial),
                                              sync::make_gate(plan.sync, config.sync), scheduler,
                                              std::move(storage));
}

std::unique_ptr<worker::WorkerCore> make_worker(const ClusterConfig& config,
                                                const ClusterPlan& plan, Incarnation incarnation,
                                                const WorkerProfile& profile,
                                                std::shared_ptr<worker::Residual> residual) {
  worker::WorkerOptions options;
  options.batch = static_cast<std::uint32_t>(config.training.batch);
  options.settings = plan.settings;
  options.left_out = plan.left_out;
  options.cluster = plan.cluster;
  options.incarnation = incarnation;
  options.name = profile.name;
  options.parameters = plan.parameters;
  options.chunk_bytes = config.chunk_bytes;
  options.overlap = sync::overlap(plan.sync, config.sync);
  options.alignment = sync::measures_alignment(plan.sync) && !plan.blank;
  options.up = profile.codecs.up;
  options.down = profile.codecs.down;
  options.auto_up = profile.codecs.auto_up;
  options.auto_down = profile.codecs.auto_down;
  options.blank = plan.blank != nullptr;
  options.averaged = averaged_of(plan);
  options.seeds = plan.own && !plan.start.values;
  options.timing = join_timing(config, plan, options.timing);
  options.server_timeout =
      std::max(options.server_timeout, Duration::from_seconds(config.servers.absent_seconds));
  options.looks = !plan.settings.empty();
  if (config.training.early_forward) options.early_forward = train::forward_layers(plan.spec);
  if (const auto weight = sync::elastic_weight(plan.sync, config.sync)) {
    options.elastic = true;
    options.exchange = !sync::takes_reply(plan.sync);
    options.weight = *weight;
  } else {
    options.residual = std::move(residual);
  }
  return std::make_unique<worker::WorkerCore>(options,
                                              sync::make_commit_rule(plan.sync, config.sync));
}

std::unique_ptr<worker::WorkerCore> make_worker(const ClusterConfig& config,
                                                const ClusterPlan& plan, Incarnation incarnation,
                                                const std::string& name,
                                                std::shared_ptr<worker::Residual> residual) {
  const auto known = std::ranges::find(plan.workers, name, &WorkerProfile::name);
  const WorkerProfile profile =
      known != plan.workers.end() ? *known : WorkerProfile{name, {}, {}, {}};
  return make_worker(config, plan, incarnation, profile, std::move(residual));
}

worker::EvaluatorCore make_evaluator(const ClusterConfig& config, const ClusterPlan& plan,
                                     Incarnation incarnation, bool held_out) {
  worker::EvaluatorOptions options;
  options.settings = plan.settings;
  options.cluster = plan.cluster;
  options.incarnation = incarnation;
  options.parameters = plan.parameters;
  options.interval = Duration::from_seconds(config.evaluation.interval_seconds);
  options.silent = !held_out;
  options.averages = held_out && sync::averages(plan.sync);
  options.only_last =
      !held_out && !config.described();  // else workers measure, and the best is saved
  return worker::EvaluatorCore(options);
}

}  // namespace rubato::cluster
