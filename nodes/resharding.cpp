#include "nodes/resharding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/words.hpp"
#include "proto/shard_map.hpp"
#include "server/file_storage.hpp"
#include "server/resharding.hpp"
#include "sync/factory.hpp"

namespace rubato::nodes {
namespace {

namespace fs = std::filesystem;

using Snapshots = std::vector<proto::SnapshotInfo>;

// What one directory has of one server.
struct OldServer {
  std::string name, directory;
  std::unique_ptr<server::Storage> storage;
  server::Storage::Inventory inventory;

  Snapshots of(ElementRange range) const {
    Snapshots found;
    for (const auto& each : inventory.snapshots)
      if (each.range == range) found.push_back(each.info);
    return found;
  }
};

std::string listed(const std::vector<std::string>& directories) {
  return fmt::format("{}", fmt::join(directories, ", "));
}

class OldShards {
 public:
  OldShards(const cluster::ClusterConfig& config, const cluster::ClusterPlan& plan,
            const scheduler::Scheduler& core, const std::vector<std::string>& from)
      : config_(config), plan_(plan), core_(core), from_(from) {}

  // All shards as their servers' next lives would begin them, by range. Empty: no snapshot was
  // written yet.
  Result<std::vector<server::ShardSnapshot>> read() {
    RUBATO_TRY(look());
    RUBATO_TRY(place());
    std::vector<server::ShardSnapshot> shards;
    if (placed_.empty()) return shards;
    RUBATO_ASSIGN(const auto chosen, choose());
    for (std::uint32_t i = 0; i < count(); ++i) {
      std::vector<std::string> lines;
      auto shard = server::recover(*placed_[i]->storage,
                                   {.info = chosen[i],
                                    .range = range(i),
                                    .settings = plan_.settings,
                                    .setbacks = core_.setbacks(),
                                    .options = cluster::shard_options(config_, plan_)},
                                   lines);
      for (const std::string& line : lines) log_warning(line);
      if (!shard)
        return fail(shard.error().code, fmt::format("the snapshot of {} in {}: {}", title(i),
                                                    placed_[i]->directory, shard.error().message));
      shards.push_back(std::move(*shard));
    }
    return shards;
  }

  // The highest number of all snapshots that are there. The end of the run's journal may lack it.
  std::uint64_t newest() const {
    std::uint64_t newest = 0;
    for (const OldServer& each : found_)
      for (const auto& snapshot : each.inventory.snapshots)
        newest = std::max(newest, snapshot.info.number);
    return newest;
  }

 private:
  std::uint32_t count() const { return core_.options().servers; }
  ElementRange range(std::uint32_t i) const {
    return proto::shard_range(plan_.parameters, i, count());
  }
  std::string title(std::uint32_t i) const {
    const auto names = core_.server_names();
    return i < names.size() ? fmt::format("server {} '{}'", i, names[i])
                            : fmt::format("server {}", i);
  }

  Result<void> look() {
    const auto names = core_.server_names();
    std::set<fs::path> seen;
    for (const std::string& directory : from_) {
      if (!fs::is_directory(directory))
        return fail(ErrorCode::BadInput, directory + ": no such directory");
      if (!seen.insert(fs::canonical(directory)).second) continue;
      for (const std::string& name : std::set<std::string>(names.begin(), names.end())) {
        const auto file = [&](const char* end) { return fs::path(directory) / (name + end); };
        if (!fs::exists(file(".0.snapshot")) && !fs::exists(file(".1.snapshot"))) continue;
        OldServer found{.name = name, .directory = directory, .storage = {}, .inventory = {}};
        RUBATO_ASSIGN(found.storage, server::open_storage({.directory = directory,
                                                           .server = name,
                                                           .cluster = plan_.cluster,
                                                           .journal = config_.snapshot.journal}));
        found.inventory = found.storage->list();
        for (const std::string& line : found.inventory.refused) {
          log_warning(line + "; it is not used");
          refused_.push_back(line);
        }
        std::erase_if(found.inventory.snapshots,
                      [&](const auto& each) { return !core_.copies().is_good(each.info); });
        found_.push_back(std::move(found));
      }
    }
    return {};
  }

  // Finds each shard by its range. Without any it is no error where none was ever written.
  Result<void> place() {
    for (std::uint32_t i = 0; i < count(); ++i) {
      OldServer* at = nullptr;
      for (OldServer& each : found_) {
        if (each.of(range(i)).empty()) continue;
        if (at)
          return fail(ErrorCode::BadInput,
                      fmt::format("{} and {} both have snapshots of {}: name the directory that it "
                                  "had last",
                                  at->directory, each.directory, title(i)));
        at = &each;
      }
      placed_.push_back(at);
    }
    const bool none = std::ranges::all_of(placed_, [](auto* each) { return each == nullptr; });
    for (std::uint32_t i = 0; i < count(); ++i) {
      const bool has_one = i < core_.servers() && core_.copies().saved(i) > 0;
      if (placed_[i] || (none && !has_one)) continue;
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: no snapshot of {} of this run: name the directory that it had "
                              "as --state{}",
                              listed(from_), title(i),
                              refused_.empty() ? "" : " (" + refused_.front() + ")"));
    }
    if (none) placed_.clear();
    return {};
  }

  // The newest that all have; with journals, which lead on from any, else each server's newest.
  Result<Snapshots> choose() const {
    std::vector<Snapshots> all;
    for (std::uint32_t i = 0; i < count(); ++i) all.push_back(placed_[i]->of(range(i)));
    const std::uint64_t common = core_.copies().common(all);
    if (common == 0 && !config_.snapshot.journal)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: the servers have no snapshot in common, so they are not of one "
                              "moment: go on with servers.count = {} until they have written one",
                              listed(from_), count()));
    Snapshots chosen;
    for (const Snapshots& found : all)
      chosen.push_back(
          *core_.copies().newest(found, common == 0 ? std::nullopt : std::optional(common)));
    return chosen;
  }

  const cluster::ClusterConfig& config_;
  const cluster::ClusterPlan& plan_;
  const scheduler::Scheduler& core_;
  const std::vector<std::string>& from_;
  std::vector<OldServer> found_;
  std::vector<OldServer*> placed_;  // of found_, by shard
  std::vector<std::string> refused_;
};

Result<void> write_shard(const server::FileStorageOptions& options, server::ShardSnapshot shard,
                         std::uint32_t setbacks) {
  RUBATO_ASSIGN(const auto storage, server::open_storage(options));
  const proto::SnapshotInfo info = shard.info;
  storage->save(std::move(shard), 0);
  std::optional<Result<void>> saved;
  while (!(saved = storage->poll_saved()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  RUBATO_TRY(*saved);
  if (storage->journals())  // an empty one, so that the next life need not wait for a snapshot
    storage->begin_part(
        {.run = info.run, .base = info.number, .setbacks = setbacks, .continues = false});
  return {};
}

Result<void> move_directory(const std::string& from, const std::string& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed)
    return fail(ErrorCode::Io,
                fmt::format("cannot rename {} to {}: {}", from, to, failed.message()));
  return sync_directory(fs::path(to).parent_path());
}

Result<void> remove_directory(const std::string& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (!failed) return {};
  return fail(ErrorCode::Io, fmt::format("cannot remove {}: {}", path, failed.message()));
}

std::string state_before(const std::string& directory) {
  return directory + ".before";
}

}  // namespace

Result<scheduler::Resharding> reshard_servers(const cluster::ClusterConfig& config,
                                              const cluster::ClusterPlan& plan,
                                              const scheduler::Scheduler& core,
                                              const std::vector<std::string>& from,
                                              const std::string& to) {
  OldShards old(config, plan, core, from);
  RUBATO_ASSIGN(auto shards, old.read());
  scheduler::Resharding made = servers_of(config);
  RUBATO_TRY(make_directories(to));
  if (shards.empty()) {
    log_info("no server has a snapshot yet: the parameters begin anew");
    return made;
  }
  const auto options = cluster::shard_options(config, plan);
  server::carry_out_orders(shards, options,
                           [&] { return sync::make_gate(plan.sync, config.sync); });
  made.snapshot = std::max(core.copies().next_number(), old.newest() + 1);
  for (std::uint32_t i = 0; i < made.servers; ++i) {
    auto shard =
        server::reshard(shards, proto::shard_range(plan.parameters, i, made.servers), options);
    shard.info.number = made.snapshot;
    RUBATO_TRY(write_shard({.directory = to,
                            .server = fmt::format("server-{}", i),
                            .cluster = plan.cluster,
                            .journal = config.snapshot.journal},
                           std::move(shard), core.setbacks()));
  }
  const auto commits = [](const server::ShardSnapshot& shard) { return shard.info.commits; };
  log_info(fmt::format("the shards of {} become those of {}, as of {}{}",
                       counted(shards.size(), "server"), made.servers,
                       counted(commits(std::ranges::min(shards, {}, commits)), "commit"),
                       config.snapshot.journal ? ", with their journals" : ""));
  return made;
}

scheduler::Resharding servers_of(const cluster::ClusterConfig& config) {
  return {.servers = static_cast<std::uint32_t>(config.servers.count),
          .addresses = config.servers.addresses};
}

std::string next_state(const std::string& directory) {
  return directory + ".next";
}

Result<void> take_next_state(const std::string& directory) {
  const bool replaces = fs::exists(directory);
  if (replaces) RUBATO_TRY(move_directory(directory, state_before(directory)));
  RUBATO_TRY(move_directory(next_state(directory), directory));
  return replaces ? remove_directory(state_before(directory)) : Result<void>();
}

bool unsettled(const std::string& directory) {
  return !fs::exists(directory) && fs::exists(state_before(directory));
}

Result<void> settle_state(const std::string& directory) {
  const std::string next = next_state(directory);
  if (unsettled(directory)) RUBATO_TRY(move_directory(next, directory));
  RUBATO_TRY(remove_directory(next));
  return remove_directory(state_before(directory));
}

}  // namespace rubato::nodes
