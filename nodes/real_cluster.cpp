#include "nodes/real_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "base/log.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/own_data.hpp"
#include "emulation/throttle/kernel_network.hpp"
#include "emulation/throttle/link_check.hpp"
#include "nodes/children.hpp"
#include "nodes/loop_command.hpp"
#include "nodes/resharding.hpp"
#include "train/device.hpp"

namespace rubato::nodes {
namespace {

// ZeroMQ's, the loop's, and those that compute and evaluate.
constexpr std::size_t kThreadsOfNode = 8;

constexpr Duration kExitPatience = Duration::from_seconds(5);

// A server whose lives are shorter than this cannot be helped by another one.
constexpr Duration kShortLife = Duration::from_seconds(10);
constexpr int kShortLivesMax = 3;  // in a row

std::string what_ended(const Children::Ended& child) {
  return fmt::format("{} {} ended: {}", proto::role_name(child.role), child.name, child.how);
}

// The servers and workers of the file, each a process that joins at `scheduler`.
class Nodes {
 public:
  // Lifetime: of all, longer than this. `state`: directory of the servers' snapshots; empty: a
  // server that ends is not started again.
  // `network`: null: the machine's own.
  Nodes(const RealRun& run, const cluster::ClusterConfig& config, std::string state,
        Children& children, const emulation::KernelNetwork* network)
      : run_(run),
        config_(config),
        state_(std::move(state)),
        children_(children),
        network_(network),
        loop_(config.own_model() ? loop_words(config).value_or(std::vector<std::string>())
                                 : std::vector<std::string>()) {}

  void start(const std::string& scheduler) {
    scheduler_ = scheduler;
    start_server();
    for (const auto& worker : cluster::worker_profiles(config_))
      if (!absent_at_start(config_, worker.name)) start(proto::Role::Worker, worker.name);
  }

  // The scheduler numbers servers in the order in which they join. So each starts when those before
  // it are there, and the file's server 1 is server-1.
  void start_servers(const scheduler::DurableScheduler& scheduler) {
    while (servers_ < config_.servers.count &&
           scheduler.core().servers() >= static_cast<std::size_t>(servers_))
      start_server();
  }

  // Plays the events of [[churn]] that are due.
  void play_churn(const scheduler::DurableScheduler& scheduler) {
    if (!scheduler.started() || scheduler.stopped()) return;
    const double seconds = (steady_now() - *scheduler.started()).seconds();
    seconds_ = seconds;
    while (!thaws_.empty() && thaws_.begin()->first <= seconds) {
      const auto& [role, name] = thaws_.begin()->second;
      children_.signal(role, name, SIGCONT);
      thaws_.erase(thaws_.begin());
    }
    for (; played_ < config_.churn.size() && config_.churn[played_].at_seconds <= seconds;
         ++played_)
      play(config_.churn[played_]);
  }

  // A worker that dies while training stops nobody. A server is started again, and goes on from its
  // last snapshot. A node that ends before training ends the run.
  void watch(scheduler::DurableScheduler& scheduler) {
    for (const auto& child : children_.reap()) {
      const bool meant = meant_to_end_.erase({child.role, child.name}) == 1;
      if (scheduler.stopped() || meant) continue;
      const Instant now = steady_now();
      const bool server = child.role == proto::Role::Server;
      const std::string what = what_ended(child);
      if (scheduler.started() && server && may_restart(now, child.name)) {
        log_warning(what + "; it is started again");
        start(child.role, child.name);
        continue;
      }
      log_warning(what);
      const bool last =
          !server && !children_.any(proto::Role::Worker) && scheduler.core().awaits_workers();
      if (!scheduler.started() || server || last) scheduler.stop_without_parameters(now, what);
    }
    // Nobody else knows where to join.
    if (scheduler.started() && !scheduler.stopped() && !children_.any(proto::Role::Worker) &&
        scheduler.core().members() == 0 && played_ == config_.churn.size())
      scheduler.fail(steady_now(), "no worker is left");
  }

 private:
  struct Life {
    Instant began;
    int short_lives = 0;  // before this one, in a row
  };

  void start_server() { start(proto::Role::Server, fmt::format("server-{}", servers_++)); }

  void start(proto::Role role, const std::string& name) {
    const bool server = role == proto::Role::Server;
    std::vector<std::string> arguments{
        config_.file,  "--sync",   run_.sync, "--seed", std::to_string(config_.seed),
        "--scheduler", scheduler_, "--name",  name,     "--quiet"};
    if (run_.throttle.on && !network_)  // check_links() has measured what this machine delivers
      arguments.insert(arguments.end(), {"--throttle", "--unchecked"});
    else if (!server)
      arguments.emplace_back("--stretch");
    if (seconds_ > 0) arguments.insert(arguments.end(), {"--trace-from", fmt::to_string(seconds_)});
    if (server && !state_.empty()) arguments.insert(arguments.end(), {"--state", state_});
    for (auto& word : run_.profile.arguments()) arguments.push_back(std::move(word));
    int space = -1;
    if (network_) {
      const auto& host = network_->host(name);
      space = host.space.get();
      arguments.emplace_back("--insecure");  // nobody else is there
      if (server)
        arguments.insert(arguments.end(), {"--bind", fmt::format("tcp://{}:*", host.address)});
    }
    if (!server && config_.own_model()) {
      arguments.emplace_back("--");
      arguments.insert(arguments.end(), loop_.begin(), loop_.end());
    }
    children_.start(role, name, arguments, space);
    if (server) lives_[name].began = steady_now();
  }

  void play(const cluster::ChurnEvent& event) {
    using Act = cluster::ChurnEvent::Act;
    const auto role = event.server ? proto::Role::Server : proto::Role::Worker;
    const std::string name = event.server ? fmt::format("server-{}", *event.server) : event.worker;
    if (run_.throttle.on || !event.cuts()) log_info("churn: " + describe(event));
    switch (event.act) {
      case Act::Join:
        return start(role, name);
      case Act::Leave:
        if (children_.signal(role, name, SIGTERM)) meant_to_end_.insert({role, name});
        return;
      case Act::Crash:
        if (children_.signal(role, name, SIGKILL)) meant_to_end_.insert({role, name});
        return;
      case Act::Freeze:
        children_.signal(role, name, SIGSTOP);
        thaws_.emplace(event.at_seconds + event.seconds, std::pair(role, name));
        return;
      case Act::Outage:
      case Act::Partition:  // the nodes' own links play it
        return;
    }
  }

  bool may_restart(Instant now, const std::string& name) {
    Life& life = lives_[name];
    life.short_lives = now - life.began < kShortLife ? life.short_lives + 1 : 0;
    return !state_.empty() && life.short_lives < kShortLivesMax;
  }

  const RealRun& run_;
  const cluster::ClusterConfig& config_;
  const std::string state_;
  Children& children_;
  const emulation::KernelNetwork* const network_;
  const std::vector<std::string> loop_;  // of workers with an own model
  std::string scheduler_;
  std::map<std::string, Life> lives_;  // of servers, by name
  using Node = std::pair<proto::Role, std::string>;
  int servers_ = 0;                    // that were started, not counting restarts
  double seconds_ = 0;                 // of training
  std::size_t played_ = 0;             // events of [[churn]]
  std::set<Node> meant_to_end_;        // by [[churn]]
  std::multimap<double, Node> thaws_;  // by seconds of training
};

// The kernel's links stay as they are made.
Result<void> require_steady_links(const cluster::ClusterConfig& config) {
  const auto traced = [](const auto& trace) { return trace && trace->shapes_link(); };
  const bool changes =
      traced(config.servers.trace) ||
      std::ranges::any_of(cluster::all_profiles(config),
                          [&](const auto& worker) { return traced(worker.trace); }) ||
      std::ranges::any_of(config.churn, &cluster::ChurnEvent::cuts);
  if (!changes) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("{}: traces of bandwidth, outages and partitions need --throttle without "
                          "--kernel",
                          config.file));
}

// A host for each node, with its link. The first host of each link is measured.
Result<std::unique_ptr<emulation::KernelNetwork>> make_network(const cluster::ClusterConfig& config,
                                                               const Throttle& throttle) {
  RUBATO_ASSIGN(auto network, emulation::KernelNetwork::make());
  std::vector<cluster::LinkModel> measured{{}};  // a node without a link
  const auto add = [&](const std::string& name, const cluster::LinkModel& link) -> Result<void> {
    const auto refused = [&](const Error& error) {
      return fail(error.code, fmt::format("link of {}: {}", name, error.message));
    };
    if (const auto added = network->add(name, link, throttle.unchecked); !added)
      return refused(added.error());
    if (throttle.unchecked || std::ranges::find(measured, link) != measured.end()) return {};
    measured.push_back(link);
    const auto text = emulation::check_link(link, [&] { return network->measure(name, link); });
    if (!text) return refused(text.error());
    log_info(fmt::format("link of {}, by the kernel: {}", name, *text));
    return {};
  };
  for (const auto& worker : cluster::all_profiles(config))
    RUBATO_TRY(add(worker.name, worker.link));
  for (int i = 0; i < config.servers.count; ++i)
    RUBATO_TRY(add(fmt::format("server-{}", i), config.servers.link));
  return network;
}

}  // namespace

Result<void> check_real(const cluster::ClusterConfig& config, const std::string& command) {
  RUBATO_TRY(cluster::require_trainable(config));
  RUBATO_TRY(cluster::check_own_data(config));
  if (config.own_model()) RUBATO_TRY(loop_words(config));
  const auto of_scheduler = [](const auto& event) { return event.scheduler && !event.cuts(); };
  if (std::ranges::any_of(config.churn, of_scheduler))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: churn.scheduler: the scheduler of {} is {} itself; rubato compare "
                            "plays it in virtual time",
                            config.file, command, command));
  // Before every process says that it cannot, or aborts.
  const std::size_t nodes =
      cluster::worker_profiles(config).size() + static_cast<std::size_t>(config.servers.count) + 1;
  RUBATO_TRY(check_descriptors(nodes));
  RUBATO_TRY(check_threads(nodes * kThreadsOfNode));
  std::set<std::string> devices{config.worker_device};
  for (const cluster::WorkerGroup& group : config.workers)
    if (!group.training_device.empty()) devices.insert(group.training_device);
  for (const std::string& device : devices)
    RUBATO_TRY(train::make_device(
        device, {.precision = train::gpu_number(device) ? config.precision
                                                        : train::cuda::Precision::Float32}));
  return {};
}

Result<void> check_links(const cluster::ClusterConfig& config, const Throttle& throttle) {
  if (throttle.kernel) return require_steady_links(config);
  if (!throttle.on || throttle.unchecked) return {};
  std::vector<std::pair<std::string, cluster::LinkModel>> links;
  for (const auto& group : config.workers) links.emplace_back(group.name, group.link);
  links.emplace_back("servers", config.servers.link);
  std::vector<cluster::LinkModel> measured{{}};  // a group without a link
  for (const auto& [who, link] : links) {
    if (std::ranges::find(measured, link) != measured.end()) continue;
    measured.push_back(link);
    const auto text = emulation::check_link(link, config.seed);
    if (!text)
      return fail(text.error().code, fmt::format("link of {}: {}", who, text.error().message));
    log_info(fmt::format("link of {}: {}", who, *text));
  }
  return {};
}

std::string unshaped_note(const cluster::ClusterConfig& config, const Throttle& throttle) {
  if (throttle.on || !cluster::names_links(config)) return {};
  return fmt::format(
      "links are not shaped: latency, bandwidth and outages in {} have no effect, step times do; "
      "add --throttle to have both",
      config.file);
}

Result<HostedRun> run_real(const cluster::ClusterConfig& config, const RealRun& run,
                           const Stop& stop) {
  const std::string state = config.snapshot.kept ? run.out + "/state" : "";
  std::unique_ptr<emulation::KernelNetwork> network;
  if (run.throttle.kernel) {
    RUBATO_ASSIGN(network, interruptible(stop, [&] { return make_network(config, run.throttle); }));
  }
  std::map<std::string, std::string> more;
  if (!run.curves.empty()) more["RUBATO_CURVES"] = run.curves;
  Children children(run.program, std::move(more));  // ends them before the profile is merged
  Nodes nodes(run, config, state, children, network.get());
  ClusterHostOptions host;
  host.bind.host = network ? emulation::KernelNetwork::address() : "127.0.0.1";
  host.sync = run.sync;
  host.seed = config.seed;
  host.out = run.out;
  host.state = state;
  host.anew = !run.resumes;
  host.alone = true;
  host.watch.on_data = run.watch.on_data;
  host.on_listening = [&](const std::string& endpoint) {
    if (!config.own_model()) train::log_device(config.worker_device);
    nodes.start(endpoint);
  };
  host.on_waiting = [&]() -> std::optional<std::string> {
    const auto ended = children.reap();
    if (ended.empty()) return std::nullopt;
    return what_ended(ended.front());
  };
  host.trace = run.profile.trace();
  host.watch.on_turn = [&](scheduler::DurableScheduler& scheduler) {
    nodes.start_servers(scheduler);
    nodes.play_churn(scheduler);
    nodes.watch(scheduler);
    if (run.watch.on_turn) run.watch.on_turn(scheduler);
  };
  cluster::ClusterConfig local = config;
  local.servers.addresses.clear();  // all nodes are here, at free ports
  if (run.resumes && !state.empty()) RUBATO_TRY(settle_state(state));
  RUBATO_ASSIGN(auto hosted, host_cluster(local, host, stop));
  if (hosted.record.steps > 0) children.wait(kExitPatience);  // all have heard the end of the run
  children.end();
  return hosted;
}

}  // namespace rubato::nodes
