#include "cli/compose/containers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "cluster/cluster_plan.hpp"
#include "cluster/own_data.hpp"
#include "proto/key_files.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;
using proto::Role;

// With less a node takes minutes to start.
constexpr double kCpusMin = 0.1;

// The fastest device has one CPU, and the others as much less as they are slower.
double cpus_of(double step_seconds, double fastest) {
  if (step_seconds <= 0) return 0;
  return std::max(kCpusMin, std::round(100 * fastest / step_seconds) / 100);
}

// The files that the cluster file names. `host` and `inside` are the same file, read from the two
// places where it lies.
std::vector<FileMount> shared_files(const cluster::ClusterConfig& host,
                                    const cluster::ClusterConfig& inside) {
  std::vector<FileMount> files;
  const auto add = [&](const std::string& from, const std::string& to) {
    if (!from.empty()) files.push_back({from, to});
  };
  add(host.dataset.path, inside.dataset.path);
  add(host.dataset.held_out_path, inside.dataset.held_out_path);
  add(host.dataset.schema, inside.dataset.schema);
  add(host.model.start, inside.model.start);
  // Workers may share files.
  std::set<std::string> known;
  const auto traces = cluster::trace_paths(host, fs::path(host.file).parent_path());
  const auto traces_inside = cluster::trace_paths(inside, fs::path(inside.file).parent_path());
  for (std::size_t i = 0; i < traces.size(); ++i)
    if (known.insert(traces_inside[i]).second) add(traces[i], traces_inside[i]);
  return files;
}

// Of `rubato`, with the cluster file at `file`.
std::vector<std::string> arguments(Role role, const std::string& name, const std::string& file,
                                   const std::string& sync) {
  std::vector<std::string> words{
      proto::role_name(role), file, "--sync", sync, "--keys", "/keys", "--state", "state"};
  const auto add = [&](std::vector<std::string> more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (role == Role::Scheduler) {
    add({"--bind", fmt::format("tcp://0.0.0.0:{}", kSchedulerPort), "--out", "results",
         "--missed-ok"});  // else it would be started again
    return words;
  }
  add({"--scheduler", fmt::format("tcp://scheduler:{}", kSchedulerPort), "--name", name,
       "--throttle"});
  if (role == Role::Server)
    add({"--bind", fmt::format("tcp://0.0.0.0:{}", kServerPort), "--advertise",
         fmt::format("tcp://{}:{}", name, kServerPort)});
  return words;
}

// Each node has a host name, which is its own name.
Result<void> check_names(const std::string& file, const std::vector<Container>& nodes) {
  std::set<std::string> seen{"keys", "results"};  // the service that makes the keys; a volume
  for (const auto& node : nodes)
    if (!seen.insert(node.name).second)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: a worker cannot be called {} in containers, where that is "
                              "something else; rename its group",
                              file, node.name));
  return {};
}

}  // namespace

std::vector<ClusterNode> cluster_nodes(const cluster::ClusterConfig& config) {
  std::vector<ClusterNode> nodes{{Role::Scheduler, std::string(proto::kSchedulerName)}};
  for (int i = 0; i < config.servers.count; ++i)
    nodes.push_back({Role::Server, fmt::format("server-{}", i)});
  for (const auto& worker : cluster::worker_profiles(config))
    nodes.push_back({Role::Worker, worker.name});
  return nodes;
}

bool allowed_at(Role who, Role where) {
  return (where == Role::Scheduler && who != Role::Scheduler) ||
         (where == Role::Server && who == Role::Worker);
}

Result<Containers> make_containers(const ContainerOptions& options) {
  RUBATO_ASSIGN(const auto source, cluster::read_cluster(options.file));
  RUBATO_ASSIGN(const auto config,
                cluster::parse_cluster(source.text, options.file, source.catalog_text));
  RUBATO_TRY(cluster::require_trainable(config));
  RUBATO_TRY(cluster::check_own_data(config));
  const std::string inside = fmt::format("/cluster/{}", fs::path(options.file).filename().string());
  RUBATO_ASSIGN(const auto config_inside,
                cluster::parse_cluster(source.text, inside, source.catalog_text, {},
                                       fs::absolute(options.file).parent_path().string()));

  Containers all{options, {{{options.file, inside}, source.text}}, {}};
  const fs::path catalog = fs::path(options.file).parent_path() / "devices.toml";
  std::error_code ignored;
  if (fs::exists(catalog, ignored))  // else the image has the one of its version
    all.texts.push_back({{catalog.string(), "/cluster/devices.toml"}, source.catalog_text});

  const auto workers = cluster::worker_profiles(config);
  const auto workers_inside = cluster::worker_profiles(config_inside);
  double fastest = 0;
  for (const auto& worker : workers)
    if (const double seconds = worker.device.step_seconds; seconds > 0)
      fastest = fastest > 0 ? std::min(fastest, seconds) : seconds;

  const auto files = shared_files(config, config_inside);
  std::size_t index = 0;  // of a worker
  for (const auto& [role, name] : cluster_nodes(config)) {
    Container node{role, name, 0, 0, arguments(role, name, inside, config.sync_or(options.sync)),
                   files};
    if (role == Role::Worker) {
      node.cpus = cpus_of(workers[index].device.step_seconds, fastest);
      node.memory_mib = std::llround(1024 * workers[index].memory_gib);
      if (!workers[index].data.empty())
        node.files.push_back({workers[index].data, workers_inside[index].data});
      ++index;
    }
    all.nodes.push_back(std::move(node));
  }
  RUBATO_TRY(check_names(options.file, all.nodes));
  return all;
}

}  // namespace rubato::cli
