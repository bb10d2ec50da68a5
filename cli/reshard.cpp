// The command that makes the state of a run that of another number of servers.
#include <fmt/format.h>

#include <filesystem>

#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/interrupt.hpp"
#include "nodes/cluster_host.hpp"
#include "nodes/resharding.hpp"

namespace rubato::cli {
namespace {

// Of the directories, the one that has the scheduler's journal.
Result<std::string> scheduler_state(const std::vector<std::string>& directories) {
  std::string found;
  for (const std::string& directory : directories) {
    std::error_code none;
    if (std::filesystem::file_size(directory + "/scheduler.journal", none) == 0 || none) continue;
    if (!found.empty())
      return fail(ErrorCode::BadInput,
                  fmt::format("{} and {} both have a scheduler.journal: name that of the run alone",
                              found, directory));
    found = directory;
  }
  if (!found.empty()) return found;
  return fail(ErrorCode::BadInput,
              fmt::format("{}: no scheduler.journal is there: name the directory that the "
                          "scheduler had as --state, too",
                          fmt::join(directories, ", ")));
}

Result<void> reshard_checked(const ReshardRun& run, std::stop_token stop) {
  RUBATO_ASSIGN(auto config, cluster::load_cluster(run.file));
  RUBATO_TRY(cluster::require_trainable(config));
  if (run.seed) config.seed = *run.seed;
  nodes::ClusterHostOptions host;
  host.sync = run.sync;
  host.seed = config.seed;
  RUBATO_ASSIGN(host.state, scheduler_state(run.from));
  host.out = run.out;
  for (const std::string& path : {run.out, nodes::next_state(run.out)})
    if (std::filesystem::exists(path))
      return fail(ErrorCode::BadInput,
                  fmt::format("--out {}: {} is there already; remove it, or name another directory",
                              run.out, path));
  RUBATO_TRY(nodes::reshard_cluster(config, host, run.from, run.out, process_stop(stop)));
  log_info(
      fmt::format("{}/scheduler.journal is for the --state directory of the scheduler, and "
                  "{}/server-0.* for that of the server of this name, and so on",
                  run.out, run.out));
  return {};
}

}  // namespace

int reshard(const ReshardRun& run, std::stop_token stop) {
  return exit_code(reshard_checked(run, stop));
}

}  // namespace rubato::cli
