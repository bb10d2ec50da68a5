#include "cli/boxes/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include "base/checksum.hpp"
#include "base/utf8.hpp"
#include "cluster/cluster_plan.hpp"
#include "proto/key_files.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;
using cluster::ClusterConfig;
using proto::Endpoint;
using proto::Role;

constexpr const char* kLocal = "localhost";

tl::unexpected<Error> problem(const ClusterConfig& config, const std::string& what) {
  return fail(ErrorCode::BadInput, fmt::format("{}: {}", config.file, what));
}

// "pi@attic", "ssh://pi@attic:2222".
struct Destination {
  std::string user;  // empty: ssh decides
  std::string host;
};
Destination read_destination(std::string_view text) {
  constexpr std::string_view kScheme = "ssh://";
  const bool address = text.starts_with(kScheme);
  if (address) text.remove_prefix(kScheme.size());
  Destination to;
  if (const auto at = text.rfind('@'); at != text.npos) {
    to.user = text.substr(0, at);
    text.remove_prefix(at + 1);
  }
  if (address) text = text.substr(0, text.rfind(':'));
  to.host = text;
  return to;
}

// The files that nodes read are those of their boxes. A relative path would be another file there.
Result<void> check_paths(const cluster::ClusterSource& source, const ClusterConfig& config,
                         const std::string& file_on_box) {
  const auto relative = [&](const std::string& path) {
    return problem(config, fmt::format("{} lies beside the cluster file here, and rubato boxes "
                                       "copies no data; write the absolute path that the file "
                                       "has on the boxes",
                                       path));
  };
  for (const auto& group : config.workers)
    for (const std::string& path : group.trace_files)
      if (!fs::path(path).is_absolute()) return relative(path);
  for (const std::string& path : config.servers.trace_files)
    if (!fs::path(path).is_absolute()) return relative(path);
  RUBATO_ASSIGN(const auto there,
                cluster::parse_cluster(source.text, file_on_box, source.catalog_text));
  const auto differs = [](const std::string& here, const std::string& box) { return here != box; };
  if (differs(config.dataset.path, there.dataset.path)) return relative(config.dataset.path);
  if (differs(config.dataset.held_out_path, there.dataset.held_out_path))
    return relative(config.dataset.held_out_path);
  if (differs(config.dataset.schema, there.dataset.schema)) return relative(config.dataset.schema);
  if (differs(config.model.start, there.model.start)) return relative(config.model.start);
  for (std::size_t i = 0; i < config.workers.size(); ++i)
    if (differs(config.workers[i].data, there.workers[i].data))
      return relative(config.workers[i].data);
  return {};
}

// The box of each node. Servers that the file does not place are with the scheduler.
Result<std::vector<cluster::NodeBox>> place_nodes(const ClusterConfig& config) {
  const auto box_of = [&](const std::string& node) {
    return std::ranges::find(config.boxes, node, &cluster::NodeBox::node);
  };
  const auto head = box_of(std::string(proto::kSchedulerName));
  if (config.boxes.empty() || head == config.boxes.end())
    return problem(config,
                   "the section [boxes] does not place the scheduler; add a line for each node, "
                   "such as scheduler = \"pi@192.168.1.10\"");
  std::vector<cluster::NodeBox> placed{*head};
  for (int i = 0; i < config.servers.count; ++i) {
    const std::string name = fmt::format("server-{}", i);
    const auto at = box_of(name);
    placed.push_back(at == config.boxes.end() ? *head : *at);
    placed.back().node = name;
  }
  std::set<std::string> listeners;
  for (const auto& each : placed) listeners.insert(each.node);
  for (const auto& each : config.boxes)
    if (!proto::is_key_name(each.node))
      return problem(config, fmt::format("boxes.{}: a node with a key has a name that begins with "
                                         "a letter or a digit; rename it",
                                         each.node));
  for (const auto& worker : cluster::worker_profiles(config))
    if (listeners.contains(worker.name))
      return problem(config, fmt::format("a worker cannot be called {}, which has a key of that "
                                         "name; rename its group",
                                         worker.name));
  for (const auto& each : config.boxes)
    if (!listeners.contains(each.node)) placed.push_back(each);
  return placed;
}

// The address at which other boxes reach a box. `alone`: there are no others.
Result<std::string> address_of(const ClusterConfig& config, const cluster::NodeBox& place,
                               bool alone) {
  std::string host = place.address;
  if (host.empty()) host = read_destination(place.destination).host;
  if (!proto::is_host(host))
    return problem(config, fmt::format("boxes.{0} = \"{1}\": '{2}' is no name or IPv4 address at "
                                       "which other boxes reach it; write {0} = \"{1} ADDRESS\"",
                                       place.node, place.destination, host));
  if (!Endpoint{host, 0}.loopback()) return host;
  if (alone) return std::string("127.0.0.1");
  return problem(config, fmt::format("boxes.{0}: other boxes do not reach this one at {1}; write "
                                     "{0} = \"{2} 192.168.1.10\", with its own address",
                                     place.node, host, place.destination));
}

// Where the servers of a box listen: as servers.addresses says, else at the usual port.
Result<Endpoint> server_endpoint(const ClusterConfig& config, const std::vector<int>& servers,
                                 const std::string& address) {
  const auto& listed = config.servers.addresses;
  if (listed.empty()) return Endpoint{address, kServerPort};
  Endpoint first;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const auto endpoint = proto::read_endpoint(listed[static_cast<std::size_t>(servers[i])]);
    if (i == 0) {
      first = *endpoint;  // checked when the file was read
    } else if (endpoint->host != first.host || endpoint->port != first.port + static_cast<int>(i)) {
      return problem(config,
                     fmt::format("servers.addresses: server-{} and server-{} are on one box; their "
                                 "ports must follow each other at one address",
                                 servers.front(), servers[i]));
    }
  }
  return first;
}

// One address for two lines would be two boxes of one machine.
Result<void> check_destinations(const ClusterConfig& config,
                                const std::vector<cluster::NodeBox>& placed) {
  for (const auto& one : placed)
    for (const auto& other : placed) {
      if (&one == &other) break;
      const bool same_host =
          read_destination(one.destination).host == read_destination(other.destination).host;
      if (same_host && one.destination != other.destination)
        return problem(config,
                       fmt::format("boxes.{}, boxes.{}: {} and {} are one box; write the "
                                   "same destination for both",
                                   other.node, one.node, other.destination, one.destination));
    }
  return {};
}

}  // namespace

std::vector<ClusterNode> Box::nodes() const {
  std::vector<ClusterNode> all;
  if (scheduler) all.push_back({Role::Scheduler, std::string(proto::kSchedulerName)});
  // With --shards a process calls its servers after itself.
  for (std::size_t i = 0; i < servers.size(); ++i)
    all.push_back({Role::Server, servers.size() == 1 ? servers.front()
                                                     : fmt::format("{}-{}", servers.front(), i)});
  for (const std::string& name : workers) all.push_back({Role::Worker, name});
  return all;
}

std::vector<std::string> Box::units() const {
  std::vector<std::string> all;
  if (scheduler) all.emplace_back("rubato-scheduler");
  if (!servers.empty()) all.emplace_back("rubato-server");
  for (const std::string& name : workers) all.push_back("rubato-worker@" + name);
  return all;
}

Result<BoxLayout> make_layout(const cluster::ClusterSource& source, const std::string& own_user) {
  if (const auto hidden = hidden_in(source.file))
    return fail(
        ErrorCode::BadInput,
        fmt::format("the path of the cluster file {} holds {}, which is not shown; rename it",
                    source.file, *hidden));
  RUBATO_ASSIGN(const auto config,
                cluster::parse_cluster(source.text, source.file, source.catalog_text));
  RUBATO_TRY(cluster::require_trainable(config));
  const std::string base = fs::path(source.file).filename().string();
  BoxLayout layout{.file = source.file,
                   .name = config.name,
                   .catalog = {},
                   .file_on_box = fmt::format("{}/{}", kBoxDirectory, base),
                   .summary = {},
                   .boxes = {},
                   .scheduler = {},
                   .elsewhere = {},
                   .data = config.dataset.path};
  if (base == "devices.toml")
    return problem(config, "devices.toml is the name of the catalog; rename the cluster file");
  RUBATO_ASSIGN(const auto placed, place_nodes(config));
  RUBATO_TRY(check_paths(source, config, layout.file_on_box));
  // The commands are shown before they run (--dry-run): nothing in them is hidden.
  if (const auto hidden = hidden_in(layout.data))
    return problem(config, fmt::format("dataset.path {} holds {}, which is not shown; rename it on "
                                       "the boxes",
                                       layout.data, *hidden));
  RUBATO_TRY(check_destinations(config, placed));

  const fs::path catalog = fs::path(source.file).parent_path() / "devices.toml";
  std::error_code ignored;
  if (fs::exists(catalog, ignored)) layout.catalog = catalog.string();
  const std::string said = config.effective + (layout.catalog.empty() ? "" : source.catalog_text);
  layout.summary = fmt::format("{:016x}", checksum(std::as_bytes(std::span(said))));

  const auto profiles = cluster::worker_profiles(config);
  const auto find_box = [&](const std::string& destination) {
    auto at = std::ranges::find(layout.boxes, destination, &Box::destination);
    if (at != layout.boxes.end()) return at;
    const std::string user = read_destination(destination).user;
    const bool local = destination == kLocal;
    layout.boxes.push_back({.destination = destination,
                            .local = local,
                            .root = (user.empty() ? own_user : user) == "root",
                            .servers = {},
                            .workers = {}});
    return layout.boxes.end() - 1;
  };
  for (const auto& each : placed) find_box(each.destination);
  const bool alone = layout.boxes.size() == 1;
  std::vector<std::vector<int>> servers(layout.boxes.size());  // their numbers, by box
  for (const auto& each : placed) {
    const auto box = find_box(each.destination);
    const auto number = static_cast<int>(&each - placed.data()) - 1;  // of a server
    if (each.node == proto::kSchedulerName) {
      box->scheduler = true;
      RUBATO_ASSIGN(const std::string address, address_of(config, each, alone));
      layout.scheduler = {address, kSchedulerPort};
    } else if (number < config.servers.count) {
      box->servers.push_back(each.node);
      auto& here = servers[static_cast<std::size_t>(box - layout.boxes.begin())];
      here.push_back(number);
      RUBATO_ASSIGN(const std::string address, address_of(config, each, alone));
      RUBATO_ASSIGN(box->server, server_endpoint(config, here, address));
    } else {
      box->workers.push_back(each.node);
      const auto known = std::ranges::find(profiles, each.node, &cluster::WorkerProfile::name);
      if (config.own_data() && known != profiles.end() && known->data.empty())
        return problem(config, fmt::format("worker {} has no data; name its file on its box with "
                                           "workers.data, as an absolute path",
                                           each.node));
    }
  }
  for (const auto& worker : profiles)
    if (std::ranges::find(placed, worker.name, &cluster::NodeBox::node) == placed.end())
      layout.elsewhere.push_back(worker.name);
  return layout;
}

}  // namespace rubato::cli
