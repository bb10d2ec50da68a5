#include "nodes/loop_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/rng.hpp"
#include "base/words.hpp"
#include "cluster/make_transport.hpp"
#include "emulation/device_model.hpp"
#include "nodes/joining.hpp"
#include "sync/factory.hpp"
#include "train/model/tensors.hpp"
#include "worker/residual_file.hpp"

namespace rubato::nodes {
namespace {

constexpr std::size_t kTensorNameMax = 200;
constexpr std::size_t kRankMax = 8;

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::uint64_t count_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t each : shape)
    count = each > 0 && count > UINT64_MAX / each ? UINT64_MAX : count * each;
  return count;
}

Result<LoopIdentity> identity_of(const LoopRun& run, const cluster::ClusterConfig& config) {
  const auto profiles = cluster::all_profiles(config);
  LoopIdentity identity{.name = run.node.name,
                        .worker = 0,
                        .workers = static_cast<std::uint32_t>(config.worker_count()),
                        .batch = config.training.batch,
                        .seed = config.seed,
                        .data = {}};
  std::vector<std::string> names;
  for (const auto& each : profiles) names.push_back(each.name);
  if (identity.name.empty()) {
    if (profiles.size() != 1)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: which of its {} workers is this? It has no name: set "
                              "RUBATO_NAME, or name it, such as \"{}\"",
                              run.node.file, profiles.size(), names.front()));
    identity.name = names.front();
  }
  const auto known = std::ranges::find(names, identity.name);
  identity.worker = static_cast<std::uint32_t>(known - names.begin());
  if (known == names.end() && !config.open) {
    const std::size_t shown = std::min<std::size_t>(names.size(), 8);
    return fail(
        ErrorCode::BadInput,
        fmt::format("name = \"{}\": {} has no such worker; it has {}{}; with join = "
                    "\"open\" others may join",
                    identity.name, run.node.file,
                    fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "),
                    names.size() > shown ? ", ..." : ""));
  }
  RUBATO_ASSIGN(const auto profile, profile_of(config, identity.name, run.like));
  identity.data = profile.data;
  return identity;
}

Result<void> check_tensors(const std::vector<LoopTensor>& tensors) {
  if (tensors.empty()) return fail(ErrorCode::BadInput, "the model has no tensors");
  std::set<std::string> names;
  for (const LoopTensor& tensor : tensors) {
    const auto refused = [&](const std::string& why) {
      return fail(ErrorCode::BadInput, fmt::format("tensor \"{}\": {}", tensor.name, why));
    };
    if (tensor.name.empty() || tensor.name.size() > kTensorNameMax)
      return refused(fmt::format("a name has 1 to {} bytes", kTensorNameMax));
    if (!names.insert(tensor.name).second) return refused("two tensors have this name");
    if (tensor.shape.size() > kRankMax)
      return refused(fmt::format("it has {} dimensions, and {} at most are allowed",
                                 tensor.shape.size(), kRankMax));
    if (tensor.memory.count == 0) return refused("it has no elements");
    if (!tensor.memory.data) return refused("it has no address");
  }
  return {};
}

// The tensors of the loop are those of the cluster's model, in order and without a gap.
Result<void> check_model(const cluster::ClusterConfig& config, const cluster::ClusterPlan& plan,
                         const std::vector<LoopTensor>& tensors) {
  const std::string kind = config.model.kind;
  if (!plan.start.trained.all())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: model.freeze: a loop of your own freezes tensors itself; leave "
                            "the key out",
                            config.file));
  std::uint64_t at = 0;
  const auto places = train::tensor_places(plan.spec);
  for (const train::TensorPlace& place : places) {
    if (place.offset != at || place.row_stride != place.columns() || place.second)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: model.kind = \"{}\": its tensors do not lie one after the "
                              "other, so a loop of your own cannot train it; use mlp, cnn, lenet, "
                              "cnn1d or svm, or kind = \"own\"",
                              config.file, kind));
    at += place.count();
  }
  std::size_t i = 0;
  for (const LoopTensor& tensor : tensors) {
    if (tensor.kind == TensorKind::Still) continue;
    if (tensor.kind == TensorKind::Averaged)
      return fail(ErrorCode::BadInput,
                  fmt::format("tensor \"{}\": model.kind = \"{}\" has no averaged tensors; use "
                              "kind = \"own\"",
                              tensor.name, kind));
    if (i == places.size() || tensor.shape != places[i].shape)
      return fail(ErrorCode::BadInput,
                  fmt::format("tensor {} is \"{}\" {}; this cluster's (model.kind = \"{}\") {}",
                              i + 1, tensor.name, shape_text(tensor.shape), kind,
                              i == places.size() ? fmt::format("has {} tensors only", places.size())
                                                 : fmt::format("is \"{}\" {}", places[i].name,
                                                               shape_text(places[i].shape))));
    ++i;
  }
  if (i < places.size())
    return fail(ErrorCode::BadInput,
                fmt::format("the model has {}; this cluster's (model.kind = \"{}\") has {}: \"{}\" "
                            "{} is missing",
                            counted(i, "tensor"), kind, places.size(), places[i].name,
                            shape_text(places[i].shape)));
  return {};
}

// A sync model may steer what this loop does not obey.
Result<void> check_steering(const LoopRun& run, const cluster::ClusterConfig& config) {
  const std::string& sync = run.node.sync;
  if (sync::steers_rate(sync) && !run.scales_rate)
    return fail(ErrorCode::BadInput,
                fmt::format("sync model {} sets the learning rate of each worker, which this loop "
                            "does not obey: give rubato.Worker the optimizer (C: "
                            "RUBATO_SCALES_RATE), or choose another model",
                            sync));
  const int batch = config.training.batch;
  if (sync::batch_max(sync, config.sync, batch) != batch && !run.resizes_batch)
    return fail(ErrorCode::BadInput,
                fmt::format("sync model {} sets the mini-batch of each worker, which this loop "
                            "does not obey: use w.batches (C: RUBATO_RESIZES_BATCH), or choose "
                            "another model",
                            sync));
  return {};
}

Result<cluster::ClusterPlan> plan_of_loop(const LoopRun& run, const WorkerPlace& place) {
  const cluster::ClusterConfig& config = place.config;
  const auto facts = train::known_facts(config.dataset);
  if (!facts)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: the inputs of model.kind = \"{}\" follow from data that this loop "
                            "has not read: state them with dataset.schema (rubato data --schema), "
                            "or use kind = \"own\"",
                            config.file, config.model.kind));
  return cluster::make_node_plan(config, run.node.sync, config.seed, facts->shape, facts->classes);
}

}  // namespace

Result<LoopIdentity> identify(LoopRun run) {
  RUBATO_ASSIGN(const auto config, load_config(run.node));
  return identity_of(run, config);
}

Result<std::unique_ptr<LoopWorker>> LoopWorker::open(LoopRun run, std::vector<LoopTensor> tensors,
                                                     LogQueue& log) {
  const LogTo lines(log);
  run.node.prefix.clear();
  RUBATO_TRY(check_tensors(tensors));
  for (const LoopTensor& tensor : tensors)
    if (count_of(tensor.shape) != tensor.memory.count)
      return fail(ErrorCode::BadInput,
                  fmt::format("tensor \"{}\": its shape {} has no {} elements", tensor.name,
                              shape_text(tensor.shape), tensor.memory.count));
  RUBATO_ASSIGN(const auto identity, identify(run));
  run.node.name = identity.name;
  if (run.node.scheduler.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("worker {} has no scheduler to join: start the script with rubato up "
                            "{}, or set RUBATO_SCHEDULER=tcp://HOST:PORT",
                            identity.name, run.node.file));
  RUBATO_ASSIGN(auto place, place_worker(run.node, run.like, run.throttle, {}));
  RUBATO_TRY(sync::find_model(run.node.sync));
  RUBATO_TRY(check_steering(run, place.config));
  std::unique_ptr<LoopWorker> made(new LoopWorker);
  LoopWorker& worker = *made;
  worker.identity_ = identity;
  RUBATO_ASSIGN(worker.plan_, plan_of_loop(run, place));
  RUBATO_TRY(check_model(place.config, worker.plan_, tensors));
  RUBATO_ASSIGN(const auto index,
                cluster::find_worker(place.config, worker.plan_, run.node.name, run.like));
  worker.identity_.worker = index;
  // A loop of its own begins a step when all parameters are here.
  place.config.training.early_forward = false;
  std::shared_ptr<worker::Residual> residual;
  if (!run.node.state.empty()) {
    RUBATO_ASSIGN(auto kept, worker::open_residual({.directory = run.node.state,
                                                    .worker = run.node.name,
                                                    .cluster = worker.plan_.cluster,
                                                    .parameters = worker.plan_.parameters}));
    residual = std::make_shared<worker::Residual>(std::move(kept));
  }
  auto core = cluster::make_worker(place.config, worker.plan_, os_random(),
                                   worker.plan_.workers[index], std::move(residual));
  auto transport = cluster::make_transport({.keys = place.keys, .ways = place.link.ways()});
  cluster::WorkerClientOptions options{.scheduler = run.node.scheduler,
                                       .parameters = worker.plan_.parameters,
                                       .batch = place.config.training.batch,
                                       .scales_rate = run.scales_rate};
  worker.link_ = std::move(place.link);
  worker.began_ = place.began;
  options.on_located = [&worker](proto::NodeId other, const std::string& endpoint) {
    worker.link_.locate(other, endpoint);
  };
  const bool stretched = run.stretch || run.throttle.on;
  if (stretched && worker.plan_.workers[index].device.step_seconds > 0) {
    options.step_time = [&worker, times = emulation::make_step_times(worker.plan_, index)](
                            Instant now, int batch) mutable {
      if (!worker.began_) worker.began_ = now;
      worker.link_.follow(*worker.began_);
      times.begin_clock(*worker.began_);
      return times.next(now, batch);
    };
  } else {
    worker.link_.follow(worker.began_.value_or(steady_now()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].kind == TensorKind::Still) continue;
    worker.travelling_.push_back(i);
    worker.addresses_.push_back(tensors[i].memory);
  }
  worker.tensors_ = std::move(tensors);
  worker.config_ = std::move(place.config);
  worker.client_ = std::make_unique<cluster::WorkerClient>(std::move(transport), std::move(core),
                                                           std::move(options), log);
  return made;
}

std::span<const cluster::TensorMemory> LoopWorker::memory(void* const* data) {
  for (std::size_t i = 0; i < travelling_.size(); ++i)
    addresses_[i].data = data ? data[travelling_[i]] : tensors_[travelling_[i]].memory.data;
  return addresses_;
}

Result<std::size_t> LoopWorker::share(std::span<const std::int32_t> labels, std::size_t samples,
                                      int classes) {
  std::vector<std::uint32_t> own(samples);
  std::iota(own.begin(), own.end(), 0u);
  const bool dealt = !config_.own_data() && identity_.worker < plan_.listed;
  if (dealt) {
    const std::vector<std::int32_t> alike(labels.empty() ? samples : 0);
    RUBATO_ASSIGN(auto parts, train::partition_samples(
                                  labels.empty() ? alike : labels, labels.empty() ? 1 : classes,
                                  static_cast<int>(plan_.listed), config_.partition, plan_.seed));
    own = std::move(parts[identity_.worker]);
  }
  if (own.empty()) return fail(ErrorCode::BadInput, "there are no samples to share out");
  const std::size_t count = own.size();
  sampler_.emplace(std::move(own),
                   Rng(plan_.seed, static_cast<std::uint64_t>(cluster::Stream::Sampler),
                       cluster::stream_of(plan_, identity_.worker)));
  drawn_ = false;
  return count;
}

Result<void> LoopWorker::draw(std::span<std::uint32_t> indices) {
  if (!sampler_) return fail(ErrorCode::BadInput, "rubato_draw: rubato_share comes first");
  if (!std::exchange(drawn_, true)) {
    std::vector<std::uint32_t> skipped(static_cast<std::size_t>(identity_.batch));
    for (auto left = client_->earlier_steps(); left > 0; --left) sampler_->next(skipped);
  }
  sampler_->next(indices);
  return {};
}

}  // namespace rubato::nodes
