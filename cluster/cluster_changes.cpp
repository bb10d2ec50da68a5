#include "cluster/cluster_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "base/nearest.hpp"
#include "cluster/cluster_keys.hpp"

namespace rubato::cluster {
namespace {

std::vector<std::string> known_nodes(const ClusterConfig& config, bool servers) {
  std::vector<std::string> names;
  for (const WorkerGroup& group : config.workers) {
    if (!group.part_of.empty() && std::ranges::find(names, group.part_of) == names.end())
      names.push_back(group.part_of);
    names.push_back(group.name);
    for (int i = 0; i < group.count && group.count > 1; ++i) names.push_back(worker_name(group, i));
  }
  if (servers) names.emplace_back(kServersNode);
  return names;
}

bool is_called(const WorkerGroup& group, const std::string& name) {
  return group.name == name || group.part_of == name;
}

bool is_group(const ClusterConfig& config, const std::string& name) {
  return std::ranges::any_of(config.workers,
                             [&](const WorkerGroup& group) { return is_called(group, name); });
}

Result<void> require_node(const ClusterConfig& config, const std::string& name, bool servers) {
  const auto names = known_nodes(config, servers);
  if (std::ranges::find(names, name) != names.end()) return {};
  return fail(ErrorCode::BadInput, fmt::format("{} is no worker or group of the cluster{}", name,
                                               suggestion(name, names)));
}

// The names of the workers that `name` means.
std::vector<std::string> workers_named(const ClusterConfig& config, const std::string& name) {
  std::vector<std::string> names;
  for (const WorkerGroup& group : config.workers)
    for (int i = 0; i < group.count; ++i)
      if (is_called(group, name) || worker_name(group, i) == name)
        names.push_back(worker_name(group, i));
  return names;
}

std::shared_ptr<const NodeTrace> trace_of(const WorkerGroup& group, int index) {
  return group.traces.empty() ? nullptr
                              : group.traces[static_cast<std::size_t>(index) % group.traces.size()];
}

// Calls `change` with the link and the trace of each node that is meant; a trace that it returns
// takes the place of that one.
using LinkChange = std::function<std::shared_ptr<const NodeTrace>(
    LinkModel&, const std::shared_ptr<const NodeTrace>&)>;

Result<void> change_links(ClusterConfig& config, const std::string& node,
                          const LinkChange& change) {
  RUBATO_TRY(require_node(config, node, true));
  if (node == kServersNode) {
    config.servers.trace = change(config.servers.link, config.servers.trace);
    return {};
  }
  if (!is_group(config, node)) split_groups(config);
  for (WorkerGroup& group : config.workers) {
    if (!is_called(group, node)) continue;
    if (group.traces.empty()) change(group.link, nullptr);
    const LinkModel before = group.link;
    for (auto& trace : group.traces) {
      group.link = before;
      trace = change(group.link, trace);
    }
  }
  return {};
}

ValueTrace faster(const ValueTrace& trace, double factor) {
  if (trace.empty()) return trace;
  std::vector<TracePoint> points = trace.points();
  for (TracePoint& point : points) point.value *= factor;
  return ValueTrace(std::move(points), trace.period());
}

std::shared_ptr<const NodeTrace> without_link(const std::shared_ptr<const NodeTrace>& trace) {
  if (!trace || !trace->shapes_link()) return trace;
  auto rest = std::make_shared<NodeTrace>(*trace);
  rest->up = rest->down = {};
  return rest;
}

}  // namespace

void split_groups(ClusterConfig& config) {
  std::vector<WorkerGroup> alone;
  for (const WorkerGroup& group : config.workers) {
    for (int i = 0; i < group.count; ++i) {
      WorkerGroup one = group;
      one.name = worker_name(group, i);
      one.count = 1;
      if (one.name != group.name) one.part_of = group.name;
      if (const auto trace = trace_of(group, i)) one.traces = {trace};
      alone.push_back(std::move(one));
    }
    for (ChurnEvent& event : config.churn)
      if (event.like == group.name) event.like = worker_name(group, 0);
  }
  config.workers = std::move(alone);
}

Result<void> remove_workers(ClusterConfig& config, const std::string& name) {
  RUBATO_TRY(require_node(config, name, false));
  const std::vector<std::string> gone = workers_named(config, name);
  split_groups(config);
  const auto is_gone = [&](const std::string& worker) {
    return std::ranges::find(gone, worker) != gone.end();
  };
  std::erase_if(config.workers, [&](const WorkerGroup& group) { return is_gone(group.name); });
  std::erase_if(config.churn, [&](const ChurnEvent& event) { return is_gone(event.worker); });
  if (config.workers.empty())
    return fail(ErrorCode::BadInput, fmt::format("{}: nobody is left to train", name));
  for (const ChurnEvent& event : config.churn)
    if (is_gone(event.like))
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: [[churn]] brings {}, which is like it", name, event.worker));
  if (config.workers_min) config.workers_min = std::min(*config.workers_min, config.worker_count());
  if (config.start_count() == 0)
    return fail(ErrorCode::BadInput, fmt::format("{}: nobody is left at the start", name));
  return {};
}

Result<void> add_workers(ClusterConfig& config, int count, const std::string& like) {
  RUBATO_TRY(require_node(config, like, false));
  if (config.own_data())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: each worker has data of its own, and new ones have none", like));
  const std::string first = workers_named(config, like).front();
  for (const WorkerGroup& group : config.workers) {
    for (int i = 0; i < group.count; ++i) {
      if (worker_name(group, i) != first) continue;
      WorkerGroup more = group;
      more.name = fmt::format("{}-more", like);
      more.count = count;
      more.part_of = {};
      if (const auto trace = trace_of(group, i)) more.traces = {trace};
      // Who comes and goes by a trace, does so for each of them.
      const std::vector<ChurnEvent> events = config.churn;
      for (int k = 0; k < count; ++k)
        for (ChurnEvent event : events)
          if (event.worker == first && !more.traces.empty() &&
              !more.traces.front()->available.empty()) {
            event.worker = worker_name(more, k);
            config.churn.push_back(std::move(event));
          }
      std::ranges::stable_sort(config.churn, {}, &ChurnEvent::at_seconds);
      config.workers.push_back(std::move(more));
      return {};
    }
  }
  return {};
}

Result<void> set_link(ClusterConfig& config, const std::string& node, const LinkModel& link) {
  bool traced = false;
  bool changed = false;
  RUBATO_TRY(change_links(config, node,
                          [&](LinkModel& now, const std::shared_ptr<const NodeTrace>& trace) {
                            traced = traced || (trace && trace->shapes_link());
                            changed = changed || now != link;
                            now = link;
                            return trace;
                          }));
  if (traced)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: its bandwidth follows a trace; remove it first", node));
  if (!changed) return fail(ErrorCode::BadInput, fmt::format("{} has that link already", node));
  return {};
}

bool has_link(const LinkModel& link, const NodeTrace* trace) {
  return link != LinkModel{} || (trace && trace->shapes_link());
}

Result<void> speed_up_link(ClusterConfig& config, const std::string& node, double factor) {
  bool changed = false;
  RUBATO_TRY(change_links(config, node,
                          [&](LinkModel& link, const std::shared_ptr<const NodeTrace>& trace)
                              -> std::shared_ptr<const NodeTrace> {
                            changed = changed || has_link(link, trace.get());
                            link.latency_seconds /= factor;
                            link.up_bytes_per_second *= factor;
                            link.down_bytes_per_second *= factor;
                            if (!trace || !trace->shapes_link()) return trace;
                            auto quick = std::make_shared<NodeTrace>(*trace);
                            quick->up = faster(trace->up, factor);
                            quick->down = faster(trace->down, factor);
                            return quick;
                          }));
  if (!changed)
    return fail(ErrorCode::BadInput, fmt::format("the link of {} takes no time already", node));
  return {};
}

Result<void> remove_links(ClusterConfig& config) {
  if (!names_links(config))
    return fail(ErrorCode::BadInput, "no link of the cluster takes any time already");
  for (WorkerGroup& group : config.workers) {
    group.link = {};
    for (auto& trace : group.traces) trace = without_link(trace);
  }
  config.servers.link = {};
  config.servers.trace = without_link(config.servers.trace);
  std::erase_if(config.churn, [](const ChurnEvent& event) { return event.cuts(); });
  return {};
}

Result<void> set_codec(ClusterConfig& config, const std::string& codec) {
  const auto& rows = codec_rows();
  bool changed = false;
  const auto set = [&](WireCodecs& codecs) -> Result<void> {
    for (const auto& row : rows) {
      if (row.key != "up" && row.key != "down") continue;
      const auto& choice = std::get<OptionRow<WireCodecs>::Choice>(row.field);
      const auto words = split_words(choice.words);
      const auto word = std::ranges::find(words, codec);
      if (word == words.end())
        return fail(ErrorCode::BadInput,
                    fmt::format("{} is no codec{}", codec, suggestion(codec, words)));
      const auto index = static_cast<std::size_t>(word - words.begin());
      changed = changed || choice.get(codecs) != index;
      choice.set(codecs, index);
    }
    return {};
  };
  RUBATO_TRY(set(config.codecs));
  changed = false;  // the groups are what counts
  for (WorkerGroup& group : config.workers) RUBATO_TRY(set(group.codecs));
  if (!changed) return fail(ErrorCode::BadInput, fmt::format("all workers use {} already", codec));
  return {};
}

}  // namespace rubato::cluster
