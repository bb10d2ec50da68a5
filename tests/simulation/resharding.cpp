// Between two lives of all servers: what `rubato reshard` would make of their disks. It is judged
// and thrown away, and the run goes on as if nobody had asked.
#include "server/resharding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "proto/shard_map.hpp"
#include "server/file_storage.hpp"
#include "tests/simulation/world.hpp"

namespace rubato::simulation {
namespace {

constexpr std::uint32_t kServersMost = 5;  // afterwards

}  // namespace

void World::judge_resharding() {
  std::vector<Node*> servers;
  for (const auto& node : nodes_)
    if (node->role == proto::Role::Server) servers.push_back(node.get());
  std::ranges::sort(servers, {}, &Node::shard);
  std::vector<StorageRecord::OfRun> found;
  for (Node* const node : servers) {
    if (node->process || node->flipped || node->shard != found.size()) return;
    found.push_back(node->record->of_run(run_));
    if (found.back().empty()) return;
  }
  const auto common = newest_common(found);
  if (!common) return;

  const auto options = shard_options_of(plan_);
  std::vector<server::ShardSnapshot> shards;
  std::vector<float> wanted;
  for (std::uint32_t i = 0; i < servers.size(); ++i) {
    Node& node = *servers[i];
    ProcessDisk reader(*node.disk, {}, 0);
    reader.die();
    auto opened = server::open_storage({.directory = "state",
                                        .server = node.name,
                                        .cluster = kCluster,
                                        .journal = plan_.journal,
                                        .disk = &reader});
    std::optional<std::uint64_t> save;
    WatchedStorage::Hooks hooks;
    hooks.loaded = [&save](std::uint64_t, std::uint64_t of) { save = of; };
    hooks.wrong = [&](const std::string& what) { watcher_.on_wrong(events_.now(), node, what); };
    WatchedStorage storage(std::move(*opened), *node.record, hooks, bug_);
    storage.list();
    std::vector<std::string> lines;
    auto shard = server::recover(storage,
                                 {.info = found[i].at(*common).info,
                                  .range = shard_of(plan_, i),
                                  .settings = std::string(kSettings),
                                  .setbacks = node.last_setbacks,
                                  .options = options},
                                 lines);
    if (!shard || !save)
      return history_.violate(
          events_.now(), "resharded",
          fmt::format("{}: {}", node.name, shard ? "was never saved" : shard.error().message));
    const ShardModel::State& state = watcher_.saved_state(storage.replayed().value_or(*save));
    wanted.insert(wanted.end(), state.values.begin(), state.values.end());
    if (shard->info.commits != state.commits)
      history_.violate(events_.now(), "resharded",
                       fmt::format("{} has {} commits, and was saved with {}", node.name,
                                   shard->info.commits, state.commits));
    shards.push_back(std::move(*shard));
  }
  const bool known = applies(plan_.sync) != Applies::Unknown;
  for (std::uint32_t count = 1; count <= kServersMost; ++count)
    for (std::uint32_t i = 0; i < count; ++i) {
      const ElementRange range = proto::shard_range(wanted.size(), i, count);
      const auto made = server::reshard(shards, range, options);
      const auto values = server::Shard(options, made.state).parameters().values();
      for (std::size_t at = 0; at < values.size(); ++at)
        if (known && values[at] != wanted[range.begin + at] &&
            element_of(plan_, range.begin + at) != Element::Averaged)
          return history_.violate(
              events_.now(), "resharded",
              fmt::format("with {} servers element {} is {}; it was {}", count, range.begin + at,
                          values[at], wanted[range.begin + at]));
    }
}

}  // namespace rubato::simulation
