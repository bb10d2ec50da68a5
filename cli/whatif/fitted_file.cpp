#include "cli/whatif/fitted_file.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/config.hpp"
#include "base/file.hpp"
#include "base/quote.hpp"
#include "base/utf8.hpp"
#include "cluster/cluster_keys.hpp"
#include "cluster/trace_files.hpp"

namespace rubato::cli::whatif {
namespace {

using cluster::ClusterConfig;

// What the sections of the file say otherwise.
Result<std::string> rest_of(const cluster::ClusterSource& source, const ClusterConfig& config) {
  std::string text = source.text;
  for (const char* key : {"workers", "churn", "worker_count", "heterogeneity", "boxes"}) {
    RUBATO_ASSIGN(const Config document, Config::parse(text, source.file));
    text = document.text(key);
  }
  RUBATO_ASSIGN(Config document, Config::parse(text, source.file));
  const auto set = [&](const char* key, const std::string& value) {
    return document.set({key, value});
  };
  const std::pair<const char*, const std::string&> paths[] = {
      {"dataset.path", config.dataset.path},
      {"dataset.held_out_path", config.dataset.held_out_path},
      {"dataset.schema", config.dataset.schema},
      {"model.start", config.model.start},
      {"model.module", config.model.module},
      {"model.layers", config.model.layers}};
  for (const auto& [key, path] : paths) {
    if (path.empty()) continue;
    const std::string whole = absolute_path(path);
    if (!is_utf8(whole))
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}: {} is no UTF-8, so no cluster file can name it; rename it", key, whole));
    RUBATO_TRY(set(key, toml_text(whole)));
  }
  if (config.servers.link == cluster::LinkModel{})
    for (const char* key :
         {"latency_seconds", "link_jitter", "up_mbps", "down_mbps", "loss", "delay_seconds"})
      RUBATO_TRY(set(fmt::format("servers.{}", key).c_str(), "0"));
  return document.text("");
}

std::string worker_section(const cluster::WorkerGroup& group) {
  std::string text = fmt::format("\n[[workers]]\nname = {}\nstep_seconds = {:.6g}\n",
                                 toml_text(group.name), group.device.step_seconds);
  const auto number = [&text](const char* key, double value) {
    if (value != 0) text += fmt::format("{} = {:.6g}\n", key, value);
  };
  number("jitter", group.device.jitter);
  number("fixed_share", group.device.fixed_share);
  number("latency_seconds", group.link.latency_seconds);
  number("link_jitter", group.link.jitter);
  number("up_mbps", 8e-6 * group.link.up_bytes_per_second);
  number("down_mbps", 8e-6 * group.link.down_bytes_per_second);
  number("loss", group.link.loss);
  number("watts_busy", group.power.busy);
  number("watts_idle", group.power.idle);
  number("watts_radio", group.power.radio);
  for (const auto& row : cluster::codec_rows()) {
    if (row.key == "keep") continue;
    text += fmt::format("{} = \"{}\"\n", row.key, value_text(row, group.codecs));
  }
  number("keep", group.codecs.up.keep);
  if (!group.data.empty()) text += fmt::format("data = {}\n", toml_text(absolute_path(group.data)));
  return text;
}

std::string churn_section(const cluster::ChurnEvent& event) {
  using Act = cluster::ChurnEvent::Act;
  const auto word = [&] {
    switch (event.act) {
      case Act::Join:
        return "join";
      case Act::Leave:
        return "leave";
      case Act::Crash:
        return "crash";
      case Act::Freeze:
        return "freeze";
      case Act::Outage:
        return "outage";
      case Act::Partition:
        break;
    }
    return "partition";
  };
  std::string text =
      fmt::format("\n[[churn]]\nat = {:.6g}\ndo = \"{}\"\n", event.at_seconds, word());
  if (!event.worker.empty()) text += fmt::format("worker = {}\n", toml_text(event.worker));
  if (!event.like.empty()) text += fmt::format("like = {}\n", toml_text(event.like));
  if (event.server) text += fmt::format("server = {}\n", *event.server);
  if (event.scheduler) text += "scheduler = true\n";
  if (event.seconds > 0) text += fmt::format("seconds = {:.6g}\n", event.seconds);
  return text;
}

}  // namespace

Result<FittedFile> fitted_file(const cluster::ClusterSource& source, const ClusterConfig& config,
                               const std::string& stem) {
  FittedFile file;
  RUBATO_ASSIGN(const std::string rest, rest_of(source, config));
  file.text = "# Fitted by rubato replay to a real run.\n" + rest;
  for (const cluster::WorkerGroup& group : config.workers) {
    file.text += worker_section(group);
    if (group.traces.empty()) continue;
    // What a worker's availability was, is in the events.
    const cluster::NodeTrace& trace = *group.traces.front();
    std::string names;
    const auto add = [&](const cluster::ValueTrace& values, const char* column, double unit) {
      if (values.empty()) return;
      std::vector<cluster::TracePoint> points = values.points();
      for (cluster::TracePoint& point : points) point.value *= unit;
      const std::string name = fmt::format("{}-{}-{}.csv", stem, group.name, column);
      file.traces.push_back(
          {name,
           cluster::trace_csv(cluster::ValueTrace(std::move(points), values.period()), column)});
      names += fmt::format("{}{}", names.empty() ? "" : ", ", toml_text(name));
    };
    add(trace.speed, "speed", 1);
    add(trace.up, "up_mbps", 8e-6);
    add(trace.down, "down_mbps", 8e-6);
    if (!names.empty()) file.text += fmt::format("trace = [{}]\n", names);
  }
  for (const cluster::ChurnEvent& event : config.churn) file.text += churn_section(event);
  return file;
}

}  // namespace rubato::cli::whatif
