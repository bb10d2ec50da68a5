// The commands of a real cluster: scheduler, server, worker.
#include <fmt/format.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/quote.hpp"
#include "cli/commands.hpp"
#include "cli/hosted_run.hpp"
#include "cli/interrupt.hpp"
#include "cli/run_place.hpp"
#include "cluster/cluster_plan.hpp"
#include "nodes/cluster_host.hpp"
#include "nodes/endpoint.hpp"
#include "nodes/node_keys.hpp"
#include "nodes/profile.hpp"
#include "report/outputs.hpp"
#include "report/progress.hpp"

namespace rubato::cli {
namespace {

// Where the results go. A scheduler that goes on with the run of --state writes where that began.
Result<RunPlace> scheduler_place(const SchedulerRun& run, const std::string& cluster,
                                 const std::string& command) {
  if (run.node.state.empty()) return RunPlace::make(run.place, cluster, command);
  const std::filesystem::path state(run.node.state);
  const auto note = state / "results";  // names that directory
  std::error_code none;
  if (std::filesystem::file_size(state / "scheduler.journal", none) > 0 && !none) {
    const auto text = read_file(note.string());
    const std::string before = text ? text->substr(0, text->find('\n')) : std::string();
    const std::string& out = run.place.out.empty() ? before : run.place.out;
    if (!out.empty()) return RunPlace::again(out);
  }
  RUBATO_ASSIGN(auto place, RunPlace::make(run.place, cluster, command));
  std::filesystem::create_directories(state, none);
  RUBATO_TRY(write_file(note, absolute_path(place.directory()) + "\n"));
  return place;
}

Result<void> scheduler_checked(SchedulerRun run, std::stop_token stop) {
  RUBATO_ASSIGN(const auto bind, nodes::parse_bind("--bind", run.node.bind));
  RUBATO_ASSIGN(auto keys, nodes::node_keys(run.node, proto::Role::Scheduler,
                                            std::string(proto::kSchedulerName), "--bind", bind));
  if (!run.node.state.empty() && bind.port == 0)
    return fail(ErrorCode::BadInput,
                fmt::format("--bind {}: with --state the next process must listen where this one "
                            "does; name a port",
                            run.node.bind));
  RUBATO_ASSIGN(auto config, cluster::load_cluster(run.node.file));
  RUBATO_TRY(cluster::require_trainable(config));
  run.node.sync = config.sync_or(run.node.sync);
  if (run.node.seed) config.seed = *run.node.seed;
  if (run.target_loss) config.stop.target_loss = run.target_loss;
  const std::string command =
      fmt::format("rubato scheduler {} --sync {}", shell_word(run.node.file), run.node.sync);
  RUBATO_ASSIGN(const auto place, scheduler_place(run, config.name, command));
  const std::string& out = place.directory();
  RUBATO_ASSIGN(const auto trace, nodes::open_profile(run.node.profile, TraceClock::Own));
  RUBATO_ASSIGN(const auto page,
                report::open_live_page(
                    run.http, report::start_comparison(config, {run.node.sync}, command, false),
                    run.node.sync, config.seed));
  ShownRun shown(config, {.sync = run.node.sync, .quiet = log_quiet(), .page = page.get()});
  const InOrder in_order;
  nodes::ClusterHostOptions host;
  host.bind = bind;
  host.keys = std::move(keys);
  host.sync = run.node.sync;
  host.seed = config.seed;
  host.out = out;
  host.state = run.node.state;
  host.trace = trace.get();
  host.watch = shown.watch();
  RUBATO_ASSIGN(auto hosted, nodes::host_cluster(config, host, process_stop(stop)));
  return conclude(config, std::move(hosted),
                  {.command = command,
                   .out = out,
                   .json = run.json,
                   .missed_ok = run.missed_ok,
                   .page = page.get()},
                  stop);
}

int node_exit_code(const Result<void>& result) {
  if (!result && log_quiet() && result.error().code == ErrorCode::Stopped)
    return exit_interrupted();
  return exit_code(result);
}

}  // namespace

int run_scheduler(const SchedulerRun& run, std::stop_token stop) {
  return node_exit_code(scheduler_checked(run, stop));
}

int run_server(const nodes::ServerRun& run, std::stop_token stop) {
  const InOrder in_order;
  return node_exit_code(nodes::run_server(run, process_stop(stop)));
}

int run_worker(nodes::WorkerRun run, std::stop_token stop) {
  std::optional<report::WorkerProgress> shown;
  if (!log_quiet()) shown.emplace(stderr, run.node.name);
  if (shown)
    run.on_progress = [&shown](const proto::Progress& at) {
      shown->update(at.steps, at.commits, at.loss, steady_now());
    };
  const InOrder in_order;
  const auto done = nodes::run_worker(run, process_stop(stop));
  shown.reset();
  return node_exit_code(done);
}

}  // namespace rubato::cli
