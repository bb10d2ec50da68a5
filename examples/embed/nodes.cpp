// A scheduler, a server and a worker of one cluster, as threads of this process. Prints how the
// loss falls, and where the trained model is.
// Usage: nodes FILE   a cluster file with one server and one worker, such as training.toml
#include <cstdio>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "cluster/cluster_config.hpp"
#include "nodes/cluster_host.hpp"
#include "nodes/nodes.hpp"

using namespace rubato;

namespace {

void say(const char* who, const Result<void>& ended) {
  if (!ended) std::fprintf(stderr, "%s: %s\n", who, ended.error().message.c_str());
}

Result<void> run(const char* file) {
  RUBATO_ASSIGN(const auto config, cluster::load_cluster(file));
  nodes::NodeOptions node{.file = file, .bind = "tcp://127.0.0.1:*"};
  nodes::ClusterHostOptions host{.bind = {.host = "127.0.0.1"}, .sync = node.sync, .out = "."};
  std::vector<std::jthread> nodes_here;  // each is asked to end if the scheduler fails
  host.on_listening = [&](const std::string& endpoint) {
    node.scheduler = endpoint;
    nodes_here.emplace_back([node](std::stop_token stop) {
      say("server", nodes::run_server({.node = node}, {.token = stop}));
    });
    node.name = cluster::worker_profiles(config).front().name;
    nodes_here.emplace_back([node](std::stop_token stop) {
      say("worker", nodes::run_worker({.node = node}, {.token = stop}));
    });
  };
  host.watch.on_turn = [shown = 0.0](scheduler::DurableScheduler& scheduler) mutable {
    const auto* last = scheduler.core().last_evaluation();
    if (last && last->loss != shown) std::printf("loss %.4f\n", shown = last->loss);
  };
  RUBATO_ASSIGN(const auto hosted, nodes::host_cluster(config, host, {}));
  std::printf("%llu steps, %s: %s\n", static_cast<unsigned long long>(hosted.record.steps),
              hosted.record.stop_reason.c_str(), hosted.model.c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: nodes FILE\n"), 2;
  set_log_quiet(true);
  const auto done = run(argv[1]);
  say("nodes", done);
  return done ? 0 : 1;
}
