#include "nodes/loop_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/checksum.hpp"
#include "base/rng.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"
#include "cluster/make_transport.hpp"
#include "nodes/joining.hpp"
#include "sync/factory.hpp"
#include "train/model/known_schema.hpp"
#include "train/model/model_file.hpp"
#include "train/model/tensors.hpp"

namespace rubato::nodes {
namespace {

using cluster::shape_text;

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
    // The virtual cluster names its workers; rubato calibrate takes any.
    if (profiles.size() != 1 && run.channel < 0)
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

std::uint64_t bytes_of(const LoopTensor& tensor) {
  return tensor.memory.count *
         (tensor.integers ? sizeof(std::int64_t) : cluster::element_bytes(tensor.memory.element));
}

// Tied weights: a tensor at the address of an earlier one is another name of it. Two that share a
// part of their memory cannot both be loaded.
Result<void> find_aliases(std::vector<LoopTensor>& tensors) {
  std::map<const std::byte*, LoopTensor*> by_address;
  for (LoopTensor& tensor : tensors) {
    const auto* const begin = static_cast<const std::byte*>(tensor.memory.data);
    const auto refused = [&](const LoopTensor& other) {
      return fail(ErrorCode::BadInput, fmt::format("tensors \"{}\" and \"{}\" overlap in memory",
                                                   other.name, tensor.name));
    };
    const auto after = by_address.lower_bound(begin);
    if (after != by_address.end()) {
      const LoopTensor& other = *after->second;
      if (after->first == begin && other.shape == tensor.shape && other.kind == tensor.kind &&
          other.integers == tensor.integers && other.memory.element == tensor.memory.element) {
        tensor.alias_of = other.name;
        continue;
      }
      if (after->first < begin + bytes_of(tensor)) return refused(other);
    }
    if (after != by_address.begin()) {
      const auto& [address, other] = *std::prev(after);
      if (begin < address + bytes_of(*other)) return refused(*other);
    }
    by_address.emplace(begin, &tensor);
  }
  return {};
}

Result<void> check_tensors(const std::vector<LoopTensor>& tensors) {
  if (tensors.empty()) return fail(ErrorCode::BadInput, "the model has no tensors");
  std::set<std::string> names;
  for (const LoopTensor& tensor : tensors) {
    const auto refused = [&](const std::string& why) {
      return fail(ErrorCode::BadInput, fmt::format("tensor \"{}\": {}", tensor.name, why));
    };
    if (tensor.name.empty() || tensor.name.size() > cluster::kTensorNameMax)
      return refused(fmt::format("a name has 1 to {} bytes", cluster::kTensorNameMax));
    if (!is_utf8(tensor.name)) return refused("a name is UTF-8");
    if (!names.insert(tensor.name).second) return refused("two tensors have this name");
    if (tensor.integers && tensor.kind != TensorKind::Still)
      return refused("whole numbers cannot travel: make it still");
    if (cluster::element_count(tensor.shape) != tensor.memory.count)
      return refused(fmt::format("its shape {} has no {} elements", shape_text(tensor.shape),
                                 tensor.memory.count));
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
    if (!tensor.travels()) continue;
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

cluster::TensorTable table_of_loop(const std::vector<LoopTensor>& tensors) {
  cluster::TensorTable table;
  RunningChecksum still;
  bool any = false;
  for (const LoopTensor& tensor : tensors) {
    if (!tensor.alias_of.empty()) {
      table.aliases[tensor.name] = tensor.alias_of;
      continue;
    }
    auto& row = table.tensors.emplace_back();
    row = {.name = tensor.name, .shape = tensor.shape, .kind = tensor.kind};
    if (row.travels()) continue;
    const auto* const bytes = static_cast<const std::byte*>(tensor.memory.data);
    const std::size_t size = bytes_of(tensor);
    if (tensor.integers && tensor.memory.count <= cluster::kToldIntegersMax) {
      row.integers.resize(tensor.memory.count);
      std::memcpy(row.integers.data(), bytes, size);
      continue;  // counters may differ
    }
    any = true;
    still.add(std::as_bytes(std::span(tensor.name)));
    still.add({bytes, size});
  }
  if (any) table.still = fmt::format("{:016x}", still.value());
  return table;
}

Result<cluster::DescribedTable> describe(const LoopRun& run,
                                         const std::vector<LoopTensor>& tensors) {
  // A loop that does not know says how many there were with each measurement.
  constexpr std::uint64_t kUnknown = 1'000'000'000;
  const std::uint64_t known = run.held_out > 0 ? run.held_out : kUnknown;
  const std::uint64_t measured = run.evaluates ? known : 0;
  cluster::DescribedTable described{
      .table = table_of_loop(tensors), .samples = run.samples, .held_out = measured};
  if (described.table.parameters() == 0)
    return fail(ErrorCode::BadInput, "no tensor of the model is trained");
  return described;
}

// The model of this worker must be the one that all agreed on.
Result<cluster::ClusterPlan> plan_of_own(const LoopRun& run, const WorkerPlace& place,
                                         const cluster::DescribedTable& described,
                                         const Stop& stop) {
  RUBATO_ASSIGN(auto agreed, ask_for_table(run.node, place.config, proto::Role::Worker,
                                           place.named(), to_text(described), stop));
  RUBATO_TRY(check_equal(described.table, "worker " + run.node.name, agreed, "this cluster"));
  return cluster::make_own_node_plan(place.config, run.node.sync, place.config.seed,
                                     std::move(agreed));
}

Result<cluster::ClusterPlan> plan_of_loop(const LoopRun& run, const WorkerPlace& place,
                                          const std::vector<LoopTensor>& tensors) {
  const cluster::ClusterConfig& config = place.config;
  auto facts = train::known_facts(config.dataset);
  if (!config.model.layers.empty()) {
    // The file says it, and the scheduler has compared it with the data.
    RUBATO_ASSIGN(const auto layers, train::read_layers(config.model.layers));
    facts = train::SampleFacts{layers.input, layers.classes};
  } else if (!facts) {
    RUBATO_ASSIGN(const auto known, train::known_schema(config.dataset));
    if (known.all()) facts = train::facts_of(known.schema);
  }
  if (!facts)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: the inputs of model.kind = \"{}\" follow from data that this loop "
                            "has not read: state them with dataset.schema (rubato data --schema), "
                            "or use kind = \"own\"",
                            config.file, config.model.kind));
  RUBATO_ASSIGN(auto plan, cluster::make_node_plan(config, run.node.sync, config.seed, facts->shape,
                                                   facts->classes));
  RUBATO_TRY(check_model(config, plan, tensors));
  return plan;
}

}  // namespace

Result<LoopIdentity> identify(LoopRun run) {
  RUBATO_ASSIGN(const auto config, load_config(run.node));
  return identity_of(run, config);
}

// The virtual cluster knows keys and links, so the loop has a place without them.
Result<std::unique_ptr<LoopWorker>> LoopWorker::open_virtual(LoopRun run,
                                                             cluster::ClusterConfig config,
                                                             std::vector<LoopTensor> tensors,
                                                             const LoopIdentity& identity,
                                                             LogQueue& log) {
  emulation::StepChannel channel(run.channel);
  RUBATO_TRY(check_steering(run, config));
  RUBATO_ASSIGN(const auto described, describe(run, tensors));
  const int batch = config.training.batch;
  WorkerPlace place;
  place.config = std::move(config);
  auto made = std::make_unique<LoopWorker>(std::move(run), std::move(place), std::move(tensors),
                                           identity, log);
  RUBATO_ASSIGN(made->virtual_, emulation::VirtualClient::make(
                                    std::move(channel), to_text(described),
                                    described.table.parameters(), batch, made->memory(nullptr)));
  return made;
}

Result<std::unique_ptr<LoopWorker>> LoopWorker::open(LoopRun run, std::vector<LoopTensor> tensors,
                                                     LogQueue& log) {
  const LogTo lines(log);
  run.node.prefix.clear();
  RUBATO_TRY(check_tensors(tensors));
  RUBATO_TRY(find_aliases(tensors));
  RUBATO_ASSIGN(auto config, load_config(run.node));
  run.node.sync = config.sync_or(run.node.sync);
  RUBATO_ASSIGN(const auto identity, identity_of(run, config));
  run.node.name = identity.name;
  if (run.channel >= 0)
    return open_virtual(std::move(run), std::move(config), std::move(tensors), identity, log);
  if (run.node.scheduler.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("worker {} has no scheduler to join: start the script with rubato up "
                            "{}, or set RUBATO_SCHEDULER=tcp://HOST:PORT",
                            identity.name, run.node.file));
  RUBATO_ASSIGN(auto place, place_worker(run.node, std::move(config), run.like, run.throttle, {}));
  RUBATO_TRY(sync::find_model(run.node.sync));
  RUBATO_TRY(check_steering(run, place.config));
  // A loop of its own begins a step when all parameters are here.
  place.config.training.early_forward = false;
  auto made = std::make_unique<LoopWorker>(std::move(run), std::move(place), std::move(tensors),
                                           identity, log);
  LoopWorker& worker = *made;
  if (!worker.place_.config.own_model()) {
    RUBATO_ASSIGN(auto plan, plan_of_loop(worker.run_, worker.place_, worker.tensors_));
    RUBATO_TRY(worker.begin(std::move(plan)));
    return made;
  }
  RUBATO_ASSIGN(auto described, describe(worker.run_, worker.tensors_));
  worker.agreement_ =
      std::jthread([&worker, described = std::move(described)](const std::stop_token& stop) {
        const LogTo own_lines(worker.log_);
        auto plan = plan_of_own(worker.run_, worker.place_, described, {.token = stop});
        const std::lock_guard lock(worker.mutex_);
        worker.agreed_ = std::move(plan);
        worker.heard_.notify_all();
      });
  return made;
}

LoopWorker::LoopWorker(LoopRun run, WorkerPlace place, std::vector<LoopTensor> tensors,
                       LoopIdentity identity, LogQueue& log)
    : run_(std::move(run)),
      place_(std::move(place)),
      identity_(std::move(identity)),
      log_(log),
      tensors_(std::move(tensors)) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].travels()) continue;
    travelling_.push_back(i);
    addresses_.push_back(tensors_[i].memory);
    addresses_.back().averaged = tensors_[i].kind == TensorKind::Averaged;
  }
}

LoopWorker::~LoopWorker() {
  leave("closed");
}

Result<void> LoopWorker::begin(cluster::ClusterPlan plan) {
  plan_ = std::move(plan);
  const cluster::ClusterConfig& config = place_.config;
  RUBATO_ASSIGN(const auto index, cluster::find_worker(config, plan_, run_.node.name, run_.like));
  identity_.worker = index;
  RUBATO_ASSIGN(auto residual, open_residual(run_.node, plan_));
  auto core =
      cluster::make_worker(config, plan_, os_random(), plan_.workers[index], std::move(residual));
  auto transport = cluster::make_transport({.keys = place_.keys, .ways = place_.link.ways()});
  cluster::WorkerClientOptions options{.scheduler = run_.node.scheduler,
                                       .parameters = plan_.parameters,
                                       .batch = config.training.batch,
                                       .scales_rate = run_.scales_rate};
  if (plan_.own && run_.evaluates)
    options.evaluate_every = Duration::from_seconds(config.evaluation.interval_seconds);
  options.averages = sync::averages(plan_.sync);
  options.on_located = [this](proto::NodeId other, const std::string& endpoint) {
    place_.link.locate(other, endpoint);
  };
  options.step_time = step_times(place_, plan_, index, run_.stretch || run_.throttle.on);
  client_ = std::make_unique<cluster::WorkerClient>(std::move(transport), std::move(core),
                                                    std::move(options), log_);
  return {};
}

Result<cluster::WorkerClient::Turn> LoopWorker::wait(Duration at_most) {
  if (virtual_) return virtual_->wait(at_most);
  const Instant until = steady_now() + at_most;
  if (!client_) {
    std::unique_lock lock(mutex_);
    const auto here = [this] { return agreed_.has_value(); };
    if (!heard_.wait_for(lock, std::chrono::nanoseconds(at_most.ns), here))
      return cluster::WorkerClient::Turn{};
    if (!*agreed_) return tl::unexpected<Error>(agreed_->error());
    RUBATO_TRY(begin(std::move(**agreed_)));
  }
  return client_->wait(std::max(until - steady_now(), Duration{}));
}

std::optional<Error> LoopWorker::failure() {
  if (virtual_) return virtual_->failure();
  return client_ ? client_->failure() : std::nullopt;
}

void LoopWorker::leave(const std::string& why) {
  if (virtual_) virtual_->leave(why);
  agreement_.request_stop();
  if (client_) client_->leave(why);
  if (agreement_.joinable()) agreement_.join();
}

std::span<const cluster::TensorMemory> LoopWorker::memory(void* const* data) {
  for (std::size_t i = 0; i < travelling_.size(); ++i)
    addresses_[i].data = data ? data[travelling_[i]] : tensors_[travelling_[i]].memory.data;
  return addresses_;
}

Result<void> LoopWorker::check_loss(std::uint64_t samples) {
  if (samples > 0) tells_loss_ = true;
  const cluster::ClusterConfig& config = place_.config;
  if (tells_loss_ || run_.evaluates || !config.own_model()) return {};
  const auto refused = [&](const std::string& why) {
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: the first step of {} told no loss, and this loop measures none: {}",
                    config.file, identity_.name, why));
  };
  if (config.stop.target_loss)
    return refused("stop.target_loss is never reached; tell a loss, or leave the key out");
  if (const auto lack = sync::lack(run_.node.sync, config.sync, 1))
    return refused(fmt::format("{} has no {}", lack->key, lack->what));
  return {};
}

Result<void> LoopWorker::check_accuracy(double accuracy) const {
  if (!place_.config.stop.target_accuracy || !std::isnan(accuracy)) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("{}: stop.target_accuracy: this loop measures a loss alone; measure an "
                          "accuracy as well, or stop by target_loss",
                          place_.config.file));
}

Result<std::size_t> LoopWorker::share(std::span<const std::int32_t> labels, std::size_t samples,
                                      int classes) {
  if (samples > UINT32_MAX)
    return fail(ErrorCode::BadInput,
                fmt::format("{} samples are too many: {} at most", samples, UINT32_MAX));
  std::vector<std::uint32_t> own(samples);
  std::iota(own.begin(), own.end(), 0u);
  const bool dealt = !place_.config.own_data() && identity_.worker < identity_.workers;
  if (dealt) {
    RUBATO_ASSIGN(auto parts, cluster::deal_samples(place_.config, labels, classes, samples,
                                                    identity_.workers, identity_.seed));
    own = std::move(parts[identity_.worker]);
  }
  if (own.empty()) return fail(ErrorCode::BadInput, "there are no samples to share out");
  const std::size_t count = own.size();
  sampler_.emplace(std::move(own),
                   Rng(identity_.seed, static_cast<std::uint64_t>(cluster::Stream::Sampler),
                       cluster::stream_of(identity_.worker, identity_.workers, identity_.name)));
  drawn_ = false;
  return count;
}

Result<void> LoopWorker::draw(std::span<std::uint32_t> indices) {
  if (!sampler_) return fail(ErrorCode::BadInput, "rubato_draw: rubato_share comes first");
  if (!std::exchange(drawn_, true)) {
    std::vector<std::uint32_t> skipped(static_cast<std::size_t>(identity_.batch));
    for (auto left = client_ ? client_->earlier_steps() : 0; left > 0; --left)
      sampler_->next(skipped);
  }
  sampler_->next(indices);
  return {};
}

}  // namespace rubato::nodes
