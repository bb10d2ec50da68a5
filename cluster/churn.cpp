#include "cluster/churn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/nearest.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/cluster_keys.hpp"

namespace rubato::cluster {
namespace {

using Act = ChurnEvent::Act;

constexpr std::size_t kEventsMax = 1'000'000;

// An event and its place in the file: some mistakes are found only after all events are sorted.
struct Placed {
  ChurnEvent event;
  ConfigTable table;
  std::string_view key;  // that the mistake is noted at
};

// "pi-0"; of a partition "pi-0 and server 1".
std::string node_name(const ChurnEvent& event) {
  std::string text = event.worker;
  const auto add = [&text](const std::string& node) {
    text += (text.empty() ? "" : " and ") + node;
  };
  if (event.server) add(fmt::format("server {}", *event.server));
  if (event.scheduler) add("the scheduler");
  return text;
}

bool wants(bool condition, const ConfigTable& table, std::string_view key, std::string_view what) {
  if (!condition) table.problem(key, what);
  return condition;
}

// The names of the workers that the event speaks of. Empty: a problem was noted.
std::vector<std::string> workers_of(const ConfigTable& table, const ChurnEvent& event,
                                    const ClusterConfig& config) {
  std::vector<std::string> names, known;
  for (const WorkerGroup& group : config.workers) {
    known.push_back(group.name);
    for (int i = 0; i < group.count; ++i) {
      const std::string name = worker_name(group, i);
      if (name != group.name) known.push_back(name);
      if (group.name == event.worker || name == event.worker) names.push_back(name);
    }
  }
  const bool like_known = event.like.empty() || std::ranges::find(known, event.like) != known.end();
  if (!wants(like_known, table, "like",
             "is no worker or group of this file" + suggestion(event.like, known)))
    return {};
  if (!names.empty()) {
    const bool own = wants(event.like.empty(), table, "like",
                           "is for workers that this file does not list; remove it");
    return own ? names : std::vector<std::string>();
  }
  const bool open = wants(config.open, table, "worker",
                          "is no worker or group of this file" + suggestion(event.worker, known) +
                              "; with join = \"open\" others may join");
  const bool named = wants(valid_name(event.worker), table, "worker",
                           "a worker needs a name of letters, digits, - and _, at most 63");
  return open && named ? std::vector{event.worker} : std::vector<std::string>();
}

bool check_server(const ConfigTable& table, const ChurnEvent& event, const ClusterConfig& config) {
  const bool dies = event.act != Act::Freeze && !event.cuts();
  return wants(*event.server < config.servers.count, table, "server",
               fmt::format("servers are numbered from 0 to {}", config.servers.count - 1)) &&
         wants(event.act != Act::Leave, table, "do",
               "a server crashes, joins again, freezes or has an outage") &&
         wants(!dies || !config.timing_only(), table, "server",
               "kind = \"timing\" has no parameters to come back with; use do = \"freeze\"") &&
         wants(!dies || (config.snapshot.kept && config.snapshot.every_seconds > 0), table,
               "server",
               "comes back from a snapshot: it needs durability = \"snapshot\" and "
               "snapshot.every_seconds above 0");
}

// One event of the file as one for each node. Notes what is wrong with the event by itself.
std::vector<ChurnEvent> read_event(const ConfigTable& table, const ClusterConfig& config) {
  ChurnEvent event;
  read_options(table, churn_rows(), event);
  const int nodes = table.has("worker") + event.server.has_value() + event.scheduler;
  const bool parts = event.act == Act::Partition;
  const bool lasts = event.act == Act::Freeze || event.cuts();
  const bool form =
      wants(table.has("at"), table, "at", "an event needs its time in seconds: at = 60") &&
      wants(table.has("do"), table, "do",
            "an event needs do = join, leave, crash, freeze, outage or partition") &&
      wants(parts || nodes == 1, table, "worker",
            "name one node: worker, server or scheduler = true") &&
      wants(!parts || nodes == 2, table, "worker",
            "a partition is between two: name two of worker, server and scheduler = true") &&
      wants(lasts == (event.seconds > 0), table, "seconds",
            "do = \"freeze\", \"outage\" or \"partition\" and seconds above 0 go together");
  if (!form) return {};
  if (event.server && !check_server(table, event, config)) return {};
  if (event.scheduler && !parts &&
      !wants(event.act != Act::Leave && event.act != Act::Outage, table, "do",
             "the scheduler crashes, joins again or freezes; it has no link"))
    return {};
  if (!table.has("worker")) return {event};
  std::vector<ChurnEvent> events;
  for (std::string& name : workers_of(table, event, config)) {
    events.push_back(event);
    events.back().worker = std::move(name);
  }
  return events;
}

// Its trace of availability as events of the worker. None: a problem was noted.
std::vector<ChurnEvent> traced_events(const ConfigTable& table, const WorkerGroup& group,
                                      const WorkerProfile& worker) {
  std::vector<ChurnEvent> events;
  const auto& points = worker.trace->available.points();
  const Act departure = group.leaves ? Act::Leave : Act::Crash;
  for (const TracePoint& point : points)
    if (point.at > Duration{})
      events.push_back({.at_seconds = point.at.seconds(),
                        .act = point.value > 0 ? Act::Join : departure,
                        .worker = worker.name});
  wants(points.front().value > 0 || !events.empty(), table, "trace",
        fmt::format("{} is never available", worker.name));
  return events;
}

// Of all groups with such traces.
void add_traced(const ConfigTable& root, const ClusterConfig& config, std::vector<Placed>& all) {
  const auto tables = root.tables(kWorkersSection);
  const auto profiles = worker_profiles(config);
  auto worker = profiles.begin();
  for (const WorkerGroup& group : config.workers) {
    const ConfigTable& table = tables[group.section];
    for (int k = 0; k < group.count; ++k, ++worker) {
      if (!worker->trace || worker->trace->available.empty()) continue;
      for (ChurnEvent& event : traced_events(table, group, *worker))
        all.push_back({std::move(event), table, "trace"});
      if (!wants(all.size() <= kEventsMax, table, "trace",
                 fmt::format("makes more than {} events; use a shorter one", kEventsMax)))
        return;
    }
  }
}

// Each event must be possible after those before it.
void check_order(const std::vector<Placed>& all, const std::set<std::string>& listed) {
  struct State {
    bool there = true;
    double frozen_until = 0;
  };
  std::map<std::string, State> nodes;
  std::map<std::string, double> cut_until;  // by node, or the two of a partition
  for (const Placed& placed : all) {
    const ChurnEvent& event = placed.event;
    const std::string name =
        event.cuts() && !event.worker.empty() ? event.worker : node_name(event);
    const bool joins = event.act == Act::Join;
    auto at = nodes.find(name);
    if (at == nodes.end()) {
      const bool additional = !event.worker.empty() && !listed.contains(name);
      at =
          nodes.emplace(name, State{.there = event.worker.empty() || !(joins || additional)}).first;
    }
    State& node = at->second;
    const auto when = [&](std::string_view what) {
      placed.table.problem(placed.key,
                           fmt::format("{} {} at {:g} s", name, what, event.at_seconds));
    };
    if (!event.cuts() && event.at_seconds < node.frozen_until) return when("is still frozen");
    if (joins && node.there) return when("is there already");
    if (!joins && !node.there) return when("is not there");
    if (event.cuts()) {
      double& until = cut_until.emplace(node_name(event), -1).first->second;
      if (event.at_seconds <= until) return when("is still cut off");
      until = event.at_seconds + event.seconds;
      continue;
    }
    node.there = joins || event.act == Act::Freeze;
    node.frozen_until = event.at_seconds + event.seconds;
  }
}

LinkCut cut_of(const ChurnEvent& event, std::optional<proto::NodeId> other) {
  const auto begins = Duration::from_seconds(event.at_seconds);
  return {begins, begins + Duration::from_seconds(event.seconds), other};
}

}  // namespace

std::string describe(const ChurnEvent& event) {
  const std::string node = node_name(event);
  switch (event.act) {
    case Act::Join:
      return node + " joins";
    case Act::Leave:
      return node + " leaves";
    case Act::Crash:
      return node + " crashes";
    case Act::Freeze:
      return fmt::format("{} freezes for {:g} s", node, event.seconds);
    case Act::Outage:
      return fmt::format("{} has an outage of {:g} s", node, event.seconds);
    case Act::Partition:
      return fmt::format("{} are parted for {:g} s", node, event.seconds);
  }
  return node;
}

void read_churn(const ConfigTable& root, ClusterConfig& config) {
  std::vector<Placed> all;
  for (const ConfigTable& table : root.tables(kChurnSection))
    for (ChurnEvent& event : read_event(table, config))
      all.push_back({std::move(event), table, "at"});
  add_traced(root, config, all);
  std::ranges::stable_sort(all, {}, [](const Placed& p) { return p.event.at_seconds; });
  std::set<std::string> listed;
  for (const WorkerProfile& worker : worker_profiles(config)) listed.insert(worker.name);
  check_order(all, listed);
  for (Placed& placed : all) config.churn.push_back(std::move(placed.event));
}

std::vector<std::string> additional_workers(const ClusterConfig& config) {
  if (config.churn.empty()) return {};
  std::set<std::string> known{""};  // the name of an event that is no worker's
  for (const WorkerProfile& worker : worker_profiles(config)) known.insert(worker.name);
  std::vector<std::string> names;
  for (const ChurnEvent& event : config.churn)
    if (known.insert(event.worker).second) names.push_back(event.worker);
  return names;
}

std::vector<LinkCut> cuts_of_worker(const ClusterConfig& config, const std::string& worker) {
  std::vector<LinkCut> cuts;
  for (const ChurnEvent& event : config.churn) {
    if (!event.cuts() || event.worker != worker) continue;
    std::optional<proto::NodeId> other;
    if (event.server) other = {proto::Role::Server, static_cast<std::uint32_t>(*event.server)};
    if (event.scheduler) other = {proto::Role::Scheduler, 0};
    cuts.push_back(cut_of(event, other));
  }
  return cuts;
}

std::vector<LinkCut> cuts_of_server(const ClusterConfig& config, int server) {
  std::vector<LinkCut> cuts;
  for (const ChurnEvent& event : config.churn) {
    if (!event.cuts() || event.server != server || !event.worker.empty()) continue;
    const bool parted = event.act == Act::Partition;
    cuts.push_back(cut_of(event, parted ? std::optional(proto::NodeId{}) : std::nullopt));
  }
  return cuts;
}

bool absent_at_start(const ClusterConfig& config, const std::string& worker) {
  const auto first = std::ranges::find(config.churn, worker, &ChurnEvent::worker);
  return first != config.churn.end() && first->act == Act::Join;
}

bool servers_crash(const ClusterConfig& config) {
  return std::ranges::any_of(config.churn, [](const ChurnEvent& event) {
    return event.server && event.act == Act::Crash;
  });
}

bool scheduler_crashes(const ClusterConfig& config) {
  return std::ranges::any_of(config.churn, [](const ChurnEvent& event) {
    return event.scheduler && event.act == Act::Crash;
  });
}

}  // namespace rubato::cluster
