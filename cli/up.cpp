#include <fmt/format.h>

#include "base/log.hpp"
#include "cli/children.hpp"
#include "cli/cluster_host.hpp"
#include "cli/commands.hpp"
#include "cli/host_info.hpp"
#include "cli/interrupt.hpp"
#include "cli/outputs.hpp"
#include "cli/profile.hpp"
#include "cluster/cluster_plan.hpp"
#include "sync/factory.hpp"
#include "train/device.hpp"

namespace rubato::cli {
namespace {

constexpr Duration kExitPatience = Duration::from_seconds(5);

// What the figures leave out; empty: nothing.
std::string note_of(const cluster::ClusterConfig& config, const std::string& file) {
  if (!cluster::names_links(config)) return {};
  return fmt::format(
      "rubato up does not shape links: latency and bandwidth in {} have no effect, step times do; "
      "rubato compare models both",
      file);
}

// Starts the servers and workers of the file, each a process that joins at `scheduler`.
void start_nodes(const UpOptions& options, const cluster::ClusterConfig& config,
                 const std::string& scheduler, ClusterProfile& profile, Children& children) {
  const auto node = [&](proto::Role role, const std::string& name) {
    std::vector<std::string> arguments{
        options.file,  "--sync",  options.sync, "--seed", std::to_string(config.seed),
        "--scheduler", scheduler, "--name",     name,     "--quiet"};
    if (role == proto::Role::Worker) arguments.emplace_back("--stretch");
    for (auto& word : profile.arguments()) arguments.push_back(std::move(word));
    children.start(role, name, arguments);
  };
  for (int i = 0; i < config.servers.count; ++i)
    node(proto::Role::Server, fmt::format("server-{}", i));
  for (const auto& worker : cluster::worker_profiles(config))
    node(proto::Role::Worker, worker.name);
}

// A worker that dies while training stops nobody; a server, or a worker that never came to train,
// ends the run.
void watch(Children& children, server::Scheduler& scheduler) {
  for (const auto& child : children.reap()) {
    if (scheduler.stopped()) continue;
    const std::string what =
        fmt::format("{} {} ended: {}", proto::role_name(child.role), child.name, child.how);
    log_warning(what);
    if (!scheduler.started() || child.role == proto::Role::Server)
      scheduler.stop_without_parameters(steady_now(), what);
  }
}

Result<void> up_checked(const UpOptions& options, std::stop_token stop) {
  RUBATO_ASSIGN(auto config, cluster::load_cluster(options.file));
  if (options.target_loss) config.stop.target_loss = options.target_loss;
  RUBATO_TRY(cluster::require_trainable(config));
  RUBATO_TRY(train::make_device(config.worker_device));  // before every worker says that it cannot
  if (options.seed) config.seed = *options.seed;
  set_log_quiet(options.quiet);
  RUBATO_TRY(sync::find_model(options.sync));
  const std::string out = options.out.empty() ? "out/" + config.name + "-up" : options.out;
  RUBATO_TRY(make_output_directory(out));
  RUBATO_ASSIGN(const auto data, interruptible(stop, [&] {
                  return train::load_dataset(config.dataset, config.seed);
                }));

  RUBATO_ASSIGN(const auto profile, ClusterProfile::open(options.profile));
  Children children;  // ends them before the profile is merged
  ClusterHostOptions host;
  host.bind.host = "127.0.0.1";
  host.sync = options.sync;
  host.seed = config.seed;
  host.out = out;
  host.quiet = options.quiet;
  const std::string note = note_of(config, options.file);
  if (!note.empty()) log_info(note);
  host.on_listening = [&](const std::string& endpoint) {
    log_device(config.worker_device);
    start_nodes(options, config, endpoint, *profile, children);
  };
  host.trace = profile->trace();
  host.on_turn = [&](server::Scheduler& scheduler) { watch(children, scheduler); };
  RUBATO_ASSIGN(auto hosted, host_cluster(config, data, host, stop));
  if (hosted.record.steps > 0) children.wait(kExitPatience);  // all have heard the end of the run
  children.end();
  return conclude(config, std::move(hosted),
                  {.command = fmt::format("rubato up {} --sync {}", options.file, options.sync),
                   .out = out,
                   .json = options.json,
                   .note = note},
                  stop);
}

}  // namespace

int up(const UpOptions& options, std::stop_token stop) {
  const auto done = up_checked(options, stop);
  return done ? 0 : report_error(done.error());
}

}  // namespace rubato::cli
