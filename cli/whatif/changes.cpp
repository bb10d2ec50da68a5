#include "cli/whatif/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/nearest.hpp"
#include "base/words.hpp"
#include "cluster/cluster_changes.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/device_catalog.hpp"
#include "proto/compression.hpp"
#include "sync/factory.hpp"

namespace rubato::cli::whatif {
namespace {

using cluster::ClusterConfig;

// What "KEY=VALUE" says: numbers, lists and true or false as they are, other values as text.
Result<Setting> setting_of(const std::string& text) {
  const auto at = text.find('=');
  if (at == text.npos || at == 0 || at + 1 == text.size())
    return fail(ErrorCode::BadInput,
                fmt::format("--set {}: write KEY=VALUE, such as training.batch=64", text));
  std::string value = text.substr(at + 1);
  if (!Config::parse("value = " + value, "")) value = fmt::format("\"{}\"", value);
  return Setting{text.substr(0, at), std::move(value)};
}

Result<Change> set_change(const std::vector<std::string>& texts) {
  Change change;
  for (const std::string& text : texts) {
    RUBATO_ASSIGN(Setting setting, setting_of(text));
    change.name += (change.name.empty() ? "" : ", ") + text;
    change.settings.push_back(std::move(setting));
  }
  return change;
}

// "a=1,b=[2,3]" at the commas that stand between settings.
std::vector<std::string> split_settings(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (i < text.size() && (c != ',' || quoted || depth > 0)) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

Change sync_change(const std::string& model) {
  const auto found = sync::find_model(model);
  return {.name = found ? std::string(found->title) : model, .sync = model};
}

Change without_change(const std::string& name, const std::string& row) {
  return {.name = row,
          .edit = [name](ClusterConfig& config) { return cluster::remove_workers(config, name); }};
}

Result<Change> link_change(const Base& base, const std::string& text) {
  const auto at = text.find('=');
  if (at == text.npos || at == 0 || at + 1 == text.size())
    return fail(ErrorCode::BadInput,
                fmt::format("--link {}: write NODE=LINK, a link of the catalog", text));
  const std::string node = text.substr(0, at);
  const std::string link = text.substr(at + 1);
  RUBATO_ASSIGN(const auto catalog,
                cluster::parse_catalog(base.source.catalog_text, "devices.toml"));
  std::vector<std::string> names;
  for (const auto& row : catalog.links) names.push_back(row.name);
  const auto row = std::ranges::find(catalog.links, link, &cluster::CatalogLink::name);
  if (row == catalog.links.end())
    return fail(ErrorCode::BadInput, fmt::format("--link {}: {} is no link of the catalog{}", text,
                                                 link, suggestion(link, names)));
  return Change{.name = fmt::format("{} on {}", node, link),
                .edit = [node, model = row->link](ClusterConfig& config) {
                  return cluster::set_link(config, node, model);
                }};
}

Change codec_change(const std::string& codec) {
  return {.name = fmt::format("codec {}", codec),
          .edit = [codec](ClusterConfig& config) { return cluster::set_codec(config, codec); }};
}

Change quick_link(const std::string& node) {
  return {
      .name = fmt::format("link of {} twice as fast", node),
      .edit = [node](ClusterConfig& config) { return cluster::speed_up_link(config, node, 2); }};
}

Result<ClusterConfig> parse(const Base& base, const std::vector<Setting>& more,
                            const cluster::ClusterChange& edit) {
  std::vector<Setting> settings = base.settings;
  settings.insert(settings.end(), more.begin(), more.end());
  const auto both = [&](ClusterConfig& config) -> Result<void> {
    if (base.fitted) RUBATO_TRY(base.fitted(config));
    return edit ? edit(config) : Result<void>{};
  };
  return cluster::parse_cluster(base.source.text, base.source.file, base.source.catalog_text,
                                settings, base.traces_at, both);
}

}  // namespace

Result<void> read_base(Base& base, const std::string& name) {
  RUBATO_ASSIGN(auto config, parse(base, {}, {}));
  RUBATO_TRY(cluster::require_step_times(config));
  RUBATO_TRY(cluster::check_sync(config, base.sync));
  base.variant = {name, base.sync, std::move(config)};
  return {};
}

Result<std::vector<Change>> asked_changes(const Base& base, const Asked& asked) {
  std::vector<Change> changes;
  for (const std::string& set : asked.set) {
    RUBATO_ASSIGN(Change change, set_change(split_settings(set)));
    changes.push_back(std::move(change));
  }
  for (const std::string& model : asked.sync) changes.push_back(sync_change(model));
  if (asked.add > 0)
    changes.push_back({.name = fmt::format("{} more like {}", asked.add, asked.like),
                       .edit = [count = asked.add, like = asked.like](ClusterConfig& config) {
                         return cluster::add_workers(config, count, like);
                       }});
  for (const std::string& name : asked.without)
    changes.push_back(without_change(name, fmt::format("without {}", name)));
  for (const std::string& link : asked.links) {
    RUBATO_ASSIGN(Change change, link_change(base, link));
    changes.push_back(std::move(change));
  }
  for (const std::string& codec : asked.codecs) changes.push_back(codec_change(codec));
  return changes;
}

std::vector<Change> single_changes(const Base& base) {
  const ClusterConfig& config = base.variant.config;
  std::vector<Change> changes;
  for (const auto& group : config.workers) {
    // Those with traces of their own differ, and each stands for itself.
    const int different = group.traces.size() > 1 ? group.count : 1;
    for (int i = 0; i < different; ++i) {
      const std::string name = cluster::worker_name(group, group.count - 1 - i);
      const bool one_of = different == 1 && group.count > 1;
      changes.push_back(
          without_change(name, one_of ? fmt::format("without one of {} {}", group.count, group.name)
                                      : fmt::format("without {}", name)));
    }
  }
  for (const auto& group : config.workers) {
    const auto* trace = group.traces.empty() ? nullptr : group.traces.front().get();
    if (cluster::has_link(group.link, trace)) changes.push_back(quick_link(group.name));
  }
  if (cluster::has_link(config.servers.link, config.servers.trace.get()))
    changes.push_back(quick_link(cluster::kServersNode));
  for (const auto codec : {proto::PayloadCodec::F32, proto::PayloadCodec::F16,
                           proto::PayloadCodec::Int8, proto::PayloadCodec::TopK})
    changes.push_back(codec_change(proto::codec_name(codec)));
  for (const std::string& model : sync::compared_models()) changes.push_back(sync_change(model));
  changes.push_back({.name = fmt::format("{} servers", 2 * config.servers.count),
                     .settings = {{"servers.count", fmt::to_string(2 * config.servers.count)}}});
  changes.push_back({.name = "all on one machine (shared memory)", .edit = cluster::remove_links});
  return changes;
}

Result<Variant> apply(const Base& base, const Change& change) {
  const auto named = [&](const Error& error) {
    return fail(error.code, fmt::format("{}: {}", change.name, error.message));
  };
  const std::string sync = change.sync.empty() ? base.sync : change.sync;
  auto config = parse(base, change.settings, change.edit);
  if (!config) return named(config.error());
  if (const auto fits = cluster::check_sync(*config, sync); !fits) return named(fits.error());
  const bool same = sync == base.sync && config->effective == base.variant.config.effective;
  if (same && !change.edit)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: the cluster is so already; ask for another change", change.name));
  return Variant{change.name, sync, std::move(*config)};
}

}  // namespace rubato::cli::whatif
