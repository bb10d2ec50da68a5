#include "nodes/joining.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/rng.hpp"
#include "cluster/churn.hpp"
#include "cluster/make_transport.hpp"
#include "cluster/node_loop.hpp"
#include "cluster/schema_desk.hpp"
#include "emulation/device_model.hpp"
#include "nodes/endpoint.hpp"
#include "nodes/node_keys.hpp"
#include "train/model/known_schema.hpp"
#include "worker/residual_file.hpp"

namespace rubato::nodes {

Error join_error(Error error, const NodeOptions& options) {
  if (error.code == ErrorCode::Timeout || error.code == ErrorCode::Gone)
    error.message =
        fmt::format("{}scheduler {}: {}", options.prefix, options.scheduler, error.message);
  return error;
}

std::optional<Instant> traces_began(const NodeOptions& options) {
  if (options.trace_from == 0) return std::nullopt;
  return steady_now() - Duration::from_seconds(options.trace_from);
}

Result<cluster::ClusterConfig> load_config(const NodeOptions& options) {
  RUBATO_ASSIGN(auto config, cluster::load_cluster(options.file));
  RUBATO_TRY(cluster::require_trainable(config));
  if (options.seed) config.seed = *options.seed;
  return config;
}

namespace {

// The scheduler's answer. `text`: what a worker describes; empty for a server.
Result<cluster::SchemaAsker> ask(const NodeOptions& options, const cluster::ClusterConfig& config,
                                 proto::Role role, const Named& who, std::string text,
                                 const Stop& stop) {
  if (text.size() > proto::kLongTextMax)
    return fail(
        ErrorCode::BadInput,
        fmt::format("the description of the model has {} bytes, and {} can be sent at most: "
                    "give its tensors shorter names",
                    text.size(), proto::kLongTextMax));
  const auto transport = cluster::make_transport({.keys = who.keys, .ways = who.ways});
  RUBATO_ASSIGN(const auto scheduler, transport->connect(options.scheduler));
  cluster::SchemaAsker asker({.cluster = proto::cluster_id(config.name),
                              .incarnation = os_random(),
                              .role = role,
                              .name = who.name,
                              .summary = std::move(text),
                              .own_model = config.own_model(),
                              .scheduler = scheduler});
  asker.on_start(steady_now());
  cluster::NodeLoop loop(*transport, asker);
  loop.look_for_scheduler(options.scheduler);
  if (const auto why = loop.run(stop.token); !why)
    return tl::unexpected<Error>(join_error(why.error(), options));
  if (!asker.stopped()) return fail(ErrorCode::Stopped, "interrupted");
  return asker;
}

}  // namespace

Result<train::InputSchema> ask_for_schema(const NodeOptions& options,
                                          const cluster::ClusterConfig& config, proto::Role role,
                                          const Named& who, std::string summary, const Stop& stop) {
  RUBATO_ASSIGN(const auto known, train::known_schema(config.dataset));
  if (known.all()) return known.schema;
  return ask(options, config, role, who, std::move(summary), stop)
      .map([](const cluster::SchemaAsker& asker) { return asker.schema(); });
}

Result<cluster::TensorTable> ask_for_table(const NodeOptions& options,
                                           const cluster::ClusterConfig& config, proto::Role role,
                                           const Named& who, std::string table, const Stop& stop) {
  return ask(options, config, role, who, std::move(table), stop)
      .map([](const cluster::SchemaAsker& asker) { return asker.table(); });
}

Result<cluster::WorkerProfile> profile_of(const cluster::ClusterConfig& config,
                                          const std::string& name, const std::string& like) {
  const auto profiles = cluster::all_profiles(config);
  const auto known = std::ranges::find(profiles, name, &cluster::WorkerProfile::name);
  if (known != profiles.end()) return *known;
  return cluster::unlisted_profile(config, name, like);
}

Result<WorkerPlace> place_worker(NodeOptions& options, cluster::ClusterConfig config,
                                 const std::string& like, const Throttle& throttle,
                                 const Stop& stop) {
  const std::string flag = options.prefix + "scheduler";
  RUBATO_ASSIGN(const auto scheduler, parse_remote(flag, options.scheduler));
  options.scheduler = scheduler.text();
  WorkerPlace place;
  RUBATO_ASSIGN(place.keys, node_keys(options, proto::Role::Worker, options.name, flag, scheduler));
  place.config = std::move(config);
  RUBATO_ASSIGN(place.profile, profile_of(place.config, options.name, like));
  place.began = traces_began(options);
  RUBATO_ASSIGN(place.link, interruptible(stop, [&] {
                  return HostLink::make(
                      throttle, place.profile.link,
                      {place.profile.trace, cluster::cuts_of_worker(place.config, options.name)},
                      place.config.seed, options.name);
                }));
  if (place.began) place.link.follow(*place.began);
  return place;
}

std::function<Duration(Instant, int)> step_times(WorkerPlace& place,
                                                 const cluster::ClusterPlan& plan,
                                                 std::uint32_t index, bool stretched) {
  if (!stretched || plan.workers[index].device.step_seconds <= 0) {
    // No step tells when training has started.
    place.link.follow(place.began.value_or(steady_now()));
    return {};
  }
  return [&place, times = emulation::make_step_times(plan, index)](Instant now, int batch) mutable {
    if (!place.began) place.began = now;
    place.link.follow(*place.began);
    times.begin_clock(*place.began);
    return times.next(now, batch);
  };
}

Result<std::shared_ptr<worker::Residual>> open_residual(const NodeOptions& options,
                                                        const cluster::ClusterPlan& plan) {
  if (options.state.empty()) return nullptr;
  RUBATO_ASSIGN(auto residual, worker::open_residual({.directory = options.state,
                                                      .worker = options.name,
                                                      .cluster = plan.cluster,
                                                      .parameters = plan.parameters}));
  return std::make_shared<worker::Residual>(std::move(residual));
}

}  // namespace rubato::nodes
