#include "nodes/nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/cores.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/rng.hpp"
#include "base/words.hpp"
#include "cluster/class_weights.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/make_transport.hpp"
#include "cluster/node_loop.hpp"
#include "cluster/own_data.hpp"
#include "cluster/plan_training.hpp"
#include "cluster/schema_desk.hpp"
#include "cluster/worker_node.hpp"
#include "nodes/endpoint.hpp"
#include "nodes/host_link.hpp"
#include "nodes/joining.hpp"
#include "nodes/loop_command.hpp"
#include "nodes/node_keys.hpp"
#include "nodes/profile.hpp"
#include "scheduler/worker_watch.hpp"
#include "server/file_storage.hpp"
#include "sync/factory.hpp"
#include "train/data/summarise.hpp"
#include "train/evaluate.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/known_schema.hpp"

namespace rubato::nodes {
namespace {

// Of a server. The first pull tells that training starts, and the link begins to change.
struct ServerHost : cluster::IdleHost {
  const HostLink* link;  // null: another shard of the process looks after it
  explicit ServerHost(const HostLink* its_link) : link(its_link) {}
  void on_handled(Instant now, const proto::Message& message) const {
    if (link && std::holds_alternative<proto::Pull>(message.body)) link->follow(now);
  }
};

// What every node starts from.
struct Node {
  cluster::ClusterConfig config;
  train::DataSplit data;  // a server needs none, unless the file alone tells its shape
  cluster::ClusterPlan plan;
};

Result<cluster::ClusterPlan> plan_of(const cluster::ClusterConfig& config,
                                     const NodeOptions& options, const train::SampleFacts& facts) {
  return cluster::make_node_plan(config, config.sync_or(options.sync), config.seed, facts.shape,
                                 facts.classes);
}

// The data that the workers share out, where the node needs them.
Result<Node> load_node(const NodeOptions& options, cluster::ClusterConfig config, bool needs_data,
                       const Stop& stop) {
  Node node{std::move(config), {}, {}};
  auto facts = train::known_facts(node.config.dataset);
  if (needs_data || !facts) {
    RUBATO_ASSIGN(node.data, interruptible(stop, [&] { return cluster::load_data(node.config); }));
    facts = {node.data.train.shape, node.data.train.classes};
  }
  RUBATO_ASSIGN(node.plan, plan_of(node.config, options, *facts));
  if (needs_data) {
    RUBATO_ASSIGN(node.plan.spec.class_weights,
                  cluster::class_weights(node.config, node.data.schema));
  }
  return node;
}

// A server holds no data. Where workers have their own, the schema says how large the model is.
Result<Node> load_server(const NodeOptions& options, cluster::ClusterConfig config,
                         const Named& who, const Stop& stop) {
  if (config.own_model()) {
    RUBATO_ASSIGN(auto table, ask_for_table(options, config, proto::Role::Server, who, {}, stop));
    Node node{std::move(config), {}, {}};
    RUBATO_ASSIGN(node.plan,
                  cluster::make_own_node_plan(node.config, node.config.sync_or(options.sync),
                                              node.config.seed, std::move(table)));
    return node;
  }
  if (!config.own_data()) return load_node(options, std::move(config), false, stop);
  RUBATO_ASSIGN(const auto schema,
                ask_for_schema(options, config, proto::Role::Server, who, {}, stop));
  Node node{std::move(config), {}, {}};
  RUBATO_ASSIGN(node.plan, plan_of(node.config, options, train::facts_of(schema)));
  return node;
}

// The path of this worker's own data.
Result<std::string> own_path(const WorkerRun& run, const cluster::ClusterConfig& config) {
  if (!run.data.empty()) return run.data;
  const auto profiles = cluster::all_profiles(config);
  const auto known = std::ranges::find(profiles, run.node.name, &cluster::WorkerProfile::name);
  if (known != profiles.end() && !known->data.empty()) return known->data;
  if (known == profiles.end() && config.open) {
    RUBATO_ASSIGN(const auto profile, cluster::unlisted_profile(config, run.node.name, run.like));
    if (!profile.data.empty()) return profile.data;
  }
  return fail(ErrorCode::BadInput,
              fmt::format("worker {}: dataset.partition = \"local\" and no data; name its file or "
                          "directory with --data, or workers.data in {}",
                          run.node.name, run.node.file));
}

// The summary of the worker's data goes to the scheduler, and the schema of all comes back.
Result<Node> load_own(const WorkerRun& run, const Named& who, cluster::ClusterConfig config,
                      const Stop& stop) {
  RUBATO_ASSIGN(const auto path, own_path(run, config));
  RUBATO_ASSIGN(const auto summary,
                interruptible(stop, [&] { return train::summarise(path, config.dataset); }));
  const std::string text = to_text(summary);
  if (text.size() > proto::kLongTextMax)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: its summary has {} bytes, and {} can be sent at most; leave "
                            "columns out with dataset.ignore, or state the schema (rubato data "
                            "--schema)",
                            path, text.size(), proto::kLongTextMax));
  log_info(fmt::format("{} has {}; the scheduler is told of columns and {}, not of samples", path,
                       counted(summary.samples, "sample"),
                       summary.target ? "the target's mean" : "classes"));
  RUBATO_ASSIGN(const auto schema,
                ask_for_schema(run.node, config, proto::Role::Worker, who, text, stop));
  Node node{std::move(config), {}, {}};
  RUBATO_ASSIGN(node.data,
                interruptible(stop, [&] { return cluster::load_box(node.config, path, schema); }));
  for (const std::string& line : node.data.left_out) log_warning(line);
  RUBATO_ASSIGN(node.plan, plan_of(node.config, run.node, train::facts_of(schema)));
  node.plan.left_out = node.data.left_out_count;
  RUBATO_ASSIGN(node.plan.spec.class_weights, cluster::class_weights(node.config, schema));
  return node;
}

Result<Node> load_worker(const WorkerRun& run, const Named& who, cluster::ClusterConfig config,
                         const Stop& stop) {
  if (config.own_data()) return load_own(run, who, std::move(config), stop);
  if (!run.data.empty())
    return fail(
        ErrorCode::BadInput,
        fmt::format("--data {}: {} deals one file out to all workers; for data of their own "
                    "set dataset.partition = \"local\"",
                    run.data, run.node.file));
  return load_node(run.node, std::move(config), true, stop);
}

// Which of the loaded samples the worker trains on: all of its own, or its share.
Result<std::vector<std::uint32_t>> samples_of(const Node& node, std::uint32_t index) {
  if (node.config.own_data()) {
    std::vector<std::uint32_t> all(node.data.train.size());
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  RUBATO_ASSIGN(auto samples, cluster::plan_samples(node.config, node.plan, node.data));
  return std::move(samples[index]);
}

// What a worker of own data holds out itself. Null: the scheduler evaluates, or nobody.
Result<std::unique_ptr<cluster::HeldOut>> held_out_of(Node& node) {
  if (!node.config.own_data() || node.data.held_out.size() == 0) return nullptr;
  auto own = std::make_unique<cluster::HeldOut>();
  own->data = std::move(node.data.held_out);
  RUBATO_ASSIGN(own->device, cluster::plan_device(node.config, node.plan, train::kEvaluationBatch));
  own->interval = Duration::from_seconds(node.config.evaluation.interval_seconds);
  own->samples_max = static_cast<std::size_t>(node.config.evaluation.samples);
  own->averages = sync::averages(node.plan.sync);
  return own;
}

// What shard `index` of a server process listens on, or tells the workers: ports follow each other.
Endpoint shard_endpoint(Endpoint first, int index) {
  if (first.port != 0) first.port += index;
  return first;
}

// The cores of --cores. The calling thread, and with it all that follows, goes to the first.
Result<Cores> choose_cores(const NodeOptions& options) {
  if (options.cores.empty()) return Cores();
  auto cores = Cores::parse(options.cores);
  if (!cores)
    return fail(ErrorCode::BadInput,
                fmt::format("--cores {}: {}", options.cores, cores.error().message));
  cores->place(0);
  return *cores;
}

// One shard: its own transport, its own thread.
Result<void> serve_shard(const Node& node, const NodeOptions& options, const Cores& cores,
                         const Endpoint& bind, int index, const Named& who, const HostLink& link,
                         TraceProcess process, std::stop_token stop) {
  const std::string lane = fmt::format("shard {}", index);
  std::optional<proto::LoopTrace> trace;
  if (process) trace.emplace(process, lane, TraceClock::Scheduler);
  const auto place_of_loop = 2 * static_cast<std::size_t>(index);
  cores.place(place_of_loop + 1);
  const auto transport = cluster::make_transport({.trace = process.lane(lane),
                                                  .keys = who.keys,
                                                  .payload_bytes_max = node.config.chunk_bytes,
                                                  .peers = node.config.nodes_max(),
                                                  .ways = who.ways});
  RUBATO_ASSIGN(std::string endpoint, transport->listen(shard_endpoint(bind, index).text()));
  cores.place(place_of_loop);  // ZeroMQ's threads have begun
  if (!options.advertise.empty()) {
    RUBATO_ASSIGN(const auto bound, parse_endpoint("--bind", endpoint));
    RUBATO_ASSIGN(const auto first, parse_endpoint("--advertise", options.advertise));
    auto advertised = shard_endpoint(first, index);
    if (advertised.port == 0) advertised.port = bound.port;
    endpoint = advertised.text();
  }
  RUBATO_ASSIGN(const auto scheduler, transport->connect(options.scheduler));
  std::unique_ptr<server::Storage> storage;
  if (!options.state.empty() && node.config.snapshot.kept) {
    RUBATO_ASSIGN(storage, server::open_storage({.directory = options.state,
                                                 .server = who.name,
                                                 .cluster = node.plan.cluster,
                                                 .journal = node.config.snapshot.journal,
                                                 .wake = [&transport] { transport->wake(); }}));
  }
  auto core = cluster::make_server(node.config, node.plan, os_random(),
                                   who.name.empty() ? endpoint : who.name, endpoint, scheduler,
                                   std::move(storage), who.keys ? who.keys->own.public_key : "");
  log_info("server listens on " + endpoint);
  core->on_start(steady_now());
  ServerHost host(index == 0 ? &link : nullptr);
  cluster::NodeLoop loop(*transport, *core, trace ? &*trace : nullptr, host);
  if (index == 0) loop.look_for_scheduler(options.scheduler);  // one line for all shards
  if (const auto why = loop.run(stop); !why)
    return tl::unexpected<Error>(join_error(why.error(), options));
  const auto& stats = core->stats();
  log_info(fmt::format(
      "server at {}: {} applied, {} refused{}, {} repeated, {} refused; the largest update was "
      "{:.2g} of {:g} times the usual one",
      endpoint, counted(stats.commits_applied, "commit"), stats.commits_refused,
      stats.commits_refused == 0 ? std::string() : " (" + scheduler::in_words(stats.refused) + ")",
      stats.commits_repeated, counted(stats.messages_refused, "message"),
      core->norms().largest_ratio(), node.config.servers.update_limit));
  if (core->interrupted()) return fail(ErrorCode::Stopped, "interrupted");
  return {};
}

// The shards of a server process, each a server of its own with its own name and key.
Result<std::vector<Named>> name_shards(const NodeOptions& options, const Endpoint& bind,
                                       const Endpoint& scheduler, int count) {
  std::vector<Named> shards;
  for (int i = 0; i < count; ++i) {
    Named shard{options.name, nullptr, nullptr};
    if (!options.name.empty() && count > 1) shard.name += fmt::format("-{}", i);
    const bool remote = bind.loopback() && !scheduler.loopback();
    RUBATO_ASSIGN(shard.keys,
                  node_keys(options, proto::Role::Server, shard.name,
                            remote ? "--scheduler" : "--bind", remote ? scheduler : bind));
    shards.push_back(std::move(shard));
  }
  return shards;
}

// Of the server that `rubato up` and `rubato compose` call server-N. Others have none.
std::vector<cluster::LinkCut> cuts_of(const cluster::ClusterConfig& config,
                                      const std::string& name) {
  for (int i = 0; i < config.servers.count; ++i)
    if (name == fmt::format("server-{}", i)) return cluster::cuts_of_server(config, i);
  return {};
}

}  // namespace

Result<void> run_server(ServerRun run, const Stop& stop) {
  const NodeOptions& options = run.node;
  const int shards = run.shards;
  RUBATO_ASSIGN(const auto bind, parse_bind("--bind", options.bind));
  RUBATO_ASSIGN(const auto scheduler, parse_remote("--scheduler", options.scheduler));
  run.node.scheduler = scheduler.text();
  RUBATO_ASSIGN(auto named, name_shards(options, bind, scheduler, shards));
  if (bind.every_address() && options.advertise.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("--bind {}: workers cannot connect to that address; name one they can "
                            "with --advertise tcp://HOST:PORT",
                            options.bind));
  if (!options.advertise.empty()) RUBATO_TRY(parse_advertised("--advertise", options.advertise));
  RUBATO_ASSIGN(const auto cores, choose_cores(options));
  RUBATO_ASSIGN(const auto trace, open_profile(options.profile, TraceClock::Scheduler));
  RUBATO_ASSIGN(auto config, interruptible(stop, [&] { return load_config(options); }));
  if (config.snapshot.journal && options.state.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("--state: {} says durability = \"journal\", which needs a directory; "
                            "name one that outlives this process",
                            config.file));
  const auto began = traces_began(options);
  RUBATO_ASSIGN(const auto link, interruptible(stop, [&] {
                  return HostLink::make(run.throttle, config.servers.link,
                                        {config.servers.trace, cuts_of(config, options.name)},
                                        config.seed,
                                        options.name.empty() ? "server" : options.name);
                }));
  link.locate({proto::Role::Scheduler, 0}, options.scheduler);
  if (began) link.follow(*began);
  for (Named& shard : named) shard.ways = link.ways();
  RUBATO_ASSIGN(const auto node, load_server(options, std::move(config), named.front(), stop));
  const auto process =
      trace_process(trace.get(), "server " + (options.name.empty() ? bind.text() : options.name));
  // An interrupt, or the failure of one shard, ends all of them.
  std::stop_source all;
  const std::stop_callback on_stop(stop.token, [&all] { all.request_stop(); });
  std::vector<Result<void>> ended(static_cast<std::size_t>(shards));
  std::vector<std::jthread> threads;
  for (int i = 0; i < shards; ++i) {
    threads.emplace_back([&, i] {
      auto& result = ended[static_cast<std::size_t>(i)];
      result = serve_shard(node, options, cores, bind, i, named[static_cast<std::size_t>(i)], link,
                           process, all.get_token());
      if (!result) all.request_stop();
    });
  }
  threads.clear();  // joins
  // The cause, rather than the shards that were stopped because of it.
  for (const auto& result : ended)
    if (!result && result.error().code != ErrorCode::Stopped) return result;
  for (const auto& result : ended) RUBATO_TRY(result);
  return {};
}

Result<void> run_worker(WorkerRun run, const Stop& stop) {
  RUBATO_ASSIGN(const auto cores, choose_cores(run.node));
  RUBATO_ASSIGN(const auto trace, open_profile(run.node.profile, TraceClock::Scheduler));
  RUBATO_ASSIGN(auto config, interruptible(stop, [&] { return load_config(run.node); }));
  if (config.own_model() || !run.module.empty() || !run.loop.empty()) {
    RUBATO_TRY(use_loop(config, run.module, run.loop));
    RUBATO_ASSIGN(const auto words, loop_words(config));
    return tl::unexpected<Error>(
        become_loop(words, loop_environment({run.node, run.like, run.stretch, run.throttle})));
  }
  RUBATO_ASSIGN(auto place,
                place_worker(run.node, std::move(config), run.like, run.throttle, stop));
  if (!place.profile.training_device.empty())
    place.config.worker_device = place.profile.training_device;
  const HostLink& link = place.link;
  const Named who = place.named();
  RUBATO_ASSIGN(auto node, load_worker(run, who, std::move(place.config), stop));
  RUBATO_ASSIGN(const auto index,
                cluster::find_worker(node.config, node.plan, run.node.name, run.like));
  RUBATO_ASSIGN(auto samples, samples_of(node, index));
  log_info(fmt::format("worker {} {}", run.node.name,
                       train::samples_text(node.data.train, samples, node.data.schema)));
  RUBATO_ASSIGN(const auto held_out, held_out_of(node));
  train::log_device(node.config.worker_device);
  RUBATO_ASSIGN(auto trainer, interruptible(stop, [&] {
                  return cluster::make_trainer(node.config, node.plan, index, node.data.train,
                                               std::move(samples),
                                               {.measure = true, .cache = cache_directory()});
                }));
  const auto process = trace_process(trace.get(), "worker " + run.node.name);
  RUBATO_ASSIGN(auto residual, open_residual(run.node, node.plan));
  auto core = cluster::make_worker(node.config, node.plan, os_random(), node.plan.workers[index],
                                   std::move(residual));
  cluster::WorkerNodeOptions options{.scheduler = run.node.scheduler,
                                     .step_time = {},
                                     .trace = process,
                                     .cores = cores,
                                     .held_out = held_out.get()};
  options.on_located = [&link](proto::NodeId other, const std::string& endpoint) {
    link.locate(other, endpoint);
  };
  options.step_time = step_times(place, node.plan, index, run.stretch || run.throttle.on);
  options.on_progress = run.on_progress;
  const auto transport =
      cluster::make_transport({.trace = process.lane("io"), .keys = who.keys, .ways = who.ways});
  const auto why = cluster::run_worker(*transport, *core, trainer, options, stop.token);
  if (!why)
    return tl::unexpected<Error>(core->id() && why.error().code == ErrorCode::Timeout
                                     ? why.error()
                                     : join_error(why.error(), run.node));
  const auto& progress = core->progress();
  log_info(fmt::format("worker {}: {}; {}, {}", run.node.name, *why,
                       counted(progress.steps, "step"), counted(progress.commits, "commit")));
  if (stop.requested()) return fail(ErrorCode::Stopped, "interrupted");
  return {};
}

}  // namespace rubato::nodes
