#include "cli/whatif/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "cluster/churn.hpp"
#include "cluster/cluster_changes.hpp"

namespace rubato::cli::whatif {
namespace {

// Fewer samples show no drift.
constexpr std::size_t kDriftSamplesMin = 16;
constexpr double kDriftErrors = 3;
// Times that differ by less are the same.
constexpr double kSameTime = 0.01;
// A worker that joins so soon was there from the start.
constexpr double kStartSeconds = 2;

// The mean step of one sample.
struct Window {
  double from = 0;
  double seconds = 0;  // a step
  double steps = 0;
};

struct Collected {
  WorkerFit fit;
  double compute = 0;
  double round_trips = 0;  // sum over commits
  double before = 0;       // when the last window ended
  std::vector<Window> windows = {};
};

// How far each window is from the mean, in deviations of one step times its square root.
std::vector<double> residuals(const Collected& worker) {
  std::vector<double> all;
  for (const Window& window : worker.windows)
    all.push_back(std::sqrt(window.steps) * (window.seconds - worker.fit.step_seconds));
  return all;
}

bool drifts(const Collected& worker, const std::vector<double>& residuals) {
  const auto count = static_cast<double>(residuals.size());
  if (residuals.size() < kDriftSamplesMin) return false;
  double squares = 0, neighbours = 0, spread = 0;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    squares += residuals[i] * residuals[i];
    if (i > 0) neighbours += residuals[i] * residuals[i - 1];
    spread += std::pow(worker.windows[i].seconds / worker.fit.step_seconds - 1, 2) / count;
  }
  return squares > 0 && neighbours / squares > kDriftErrors / std::sqrt(count) &&
         std::sqrt(spread) > kSameTime;
}

void finish(Collected& worker) {
  WorkerFit& fit = worker.fit;
  fit.step_seconds = worker.compute / static_cast<double>(fit.steps);
  if (fit.commits > 0) fit.round_trip = worker.round_trips / static_cast<double>(fit.commits);
  const std::vector<double> off = residuals(worker);
  if (drifts(worker, off)) {
    for (const Window& window : worker.windows)
      fit.speed.push_back({Duration::from_seconds(window.from), fit.step_seconds / window.seconds});
    return;
  }
  if (off.size() < 2) return;
  double squares = 0;
  for (const double each : off) squares += each * each;
  fit.jitter = std::sqrt(squares / static_cast<double>(off.size() - 1)) / fit.step_seconds;
}

cluster::WorkerGroup* group_of(cluster::ClusterConfig& config, const std::string& worker) {
  const auto found = std::ranges::find(config.workers, worker, &cluster::WorkerGroup::name);
  return found == config.workers.end() ? nullptr : &*found;
}

void set_device(cluster::WorkerGroup& group, const WorkerFit& fit) {
  const bool in_file = fit.file_step > 0 && group.device.step_seconds > 0;
  const double changed = in_file ? group.device.step_seconds / fit.file_step : 1;
  group.device.step_seconds = fit.step_seconds * changed;
  group.device.jitter = fit.jitter;
  group.device.drift = 0;
  group.device.slow = {};
  auto trace = std::make_shared<cluster::NodeTrace>();
  if (!group.traces.empty()) *trace = *group.traces.front();
  trace->speed = fit.speed.empty() ? cluster::ValueTrace() : cluster::ValueTrace(fit.speed);
  group.traces.clear();
  if (!trace->empty()) group.traces.push_back(std::move(trace));
}

// Of a worker's commits, over the seeds of a replay.
struct PlayedRoundTrip {
  double mean = 0, deviation = 0;
  bool explains(double real) const {
    constexpr double kBeyond = 0.01, kDeviations = 3;
    return std::abs(real - mean) <= std::max(kBeyond * real, kDeviations * deviation);
  }
};

std::optional<PlayedRoundTrip> played_round_trip(const std::string& worker,
                                                 const Replays& replays) {
  double count = 0, sum = 0, squares = 0;
  for (const auto& replay : replays) {
    const auto played = std::ranges::find(replay, worker, &WorkerFit::worker);
    if (played == replay.end() || played->commits == 0) continue;
    ++count;
    sum += played->round_trip;
    squares += played->round_trip * played->round_trip;
  }
  if (count == 0) return std::nullopt;
  const double mean = sum / count;
  const double variance = count > 1 ? (squares - count * mean * mean) / (count - 1) : 0;
  return PlayedRoundTrip{mean, std::sqrt(std::max(0.0, variance))};
}

// A process takes a while to start: the joins of the file happened later.
void retime_joins(cluster::ClusterConfig& config, const RunRecord& record) {
  std::map<std::string, std::vector<double>> joined;
  for (const WorkerRecord& life : record.workers)
    if (life.joined_seconds > kStartSeconds) joined[life.id].push_back(life.joined_seconds);
  std::map<std::string, std::size_t> seen;
  for (cluster::ChurnEvent& event : config.churn) {
    if (event.act != cluster::ChurnEvent::Act::Join || event.worker.empty()) continue;
    const auto& times = joined[event.worker];
    const std::size_t life = seen[event.worker]++;
    if (life < times.size()) event.at_seconds = std::max(event.at_seconds, times[life]);
  }
}

// When a life ended. One that was lost was last heard some time before it was missed.
double end_of(const WorkerRecord& life, const std::vector<WorkerFit>& workers) {
  const auto worker = std::ranges::find(workers, life.id, &WorkerFit::worker);
  double end = *life.left_seconds;
  if (life.fate == "left" || worker == workers.end()) return end;
  for (const double heard : worker->heard)
    if (heard >= life.joined_seconds && heard <= *life.left_seconds) end = heard;
  return end;
}

// The lives of each worker as events, where the file has none of that worker.
void add_lives(cluster::ClusterConfig& config, const RunRecord& record,
               const std::vector<WorkerFit>& workers) {
  using Act = cluster::ChurnEvent::Act;
  const std::vector<cluster::ChurnEvent> known = config.churn;
  const auto planned = [&](const std::string& worker) {
    return std::ranges::find(known, worker, &cluster::ChurnEvent::worker) != known.end();
  };
  for (const WorkerRecord& life : record.workers) {
    if (planned(life.id) || !group_of(config, life.id)) continue;
    if (life.joined_seconds > kStartSeconds)
      config.churn.push_back(
          {.at_seconds = life.joined_seconds, .act = Act::Join, .worker = life.id});
    if (!life.left_seconds) continue;
    config.churn.push_back({.at_seconds = end_of(life, workers),
                            .act = life.fate == "left" ? Act::Leave : Act::Crash,
                            .worker = life.id});
  }
  std::ranges::stable_sort(config.churn, {}, &cluster::ChurnEvent::at_seconds);
}

}  // namespace

std::vector<WorkerFit> fit_workers(const std::vector<scheduler::RunSample>& samples) {
  std::vector<Collected> workers;
  for (const scheduler::RunSample& sample : samples) {
    auto at = std::ranges::find(workers, sample.worker,
                                [](const Collected& each) { return each.fit.worker; });
    if (at == workers.end()) {
      workers.emplace_back();
      at = workers.end() - 1;
      at->fit.worker = sample.worker;
    }
    at->fit.steps += sample.steps;
    at->fit.commits += sample.commits;
    at->compute += sample.compute;
    at->round_trips += sample.round_trip * static_cast<double>(sample.commits);
    if (sample.steps > 0 && sample.compute > 0) {
      const auto steps = static_cast<double>(sample.steps);
      at->windows.push_back({at->before, sample.compute / steps, steps});
      at->before = sample.seconds;
      at->fit.heard.push_back(sample.seconds);
    }
  }
  std::vector<WorkerFit> fits;
  for (Collected& worker : workers) {
    if (worker.windows.empty()) continue;
    finish(worker);
    fits.push_back(std::move(worker.fit));
  }
  return fits;
}

bool links_fit(const std::vector<WorkerFit>& measured, const Replays& replays) {
  return std::ranges::all_of(measured, [&](const WorkerFit& real) {
    const auto played = played_round_trip(real.worker, replays);
    return !played || real.commits == 0 || played->explains(real.round_trip);
  });
}

LinkFit fit_links(const LinkFit& links, const std::vector<WorkerFit>& measured,
                  const Replays& replays) {
  LinkFit better = links;
  std::size_t compared = 0, quick = 0;
  for (const WorkerFit& real : measured) {
    const auto played = played_round_trip(real.worker, replays);
    if (!played || real.commits == 0) continue;
    ++compared;
    if (real.round_trip < played->mean / 2) ++quick;
    if (!played->explains(real.round_trip))
      better.more_latency[real.worker] += (real.round_trip - played->mean) / 2;
  }
  if (!links.unshaped && 2 * quick > compared) return {.unshaped = true};
  return better;
}

void add_file_steps(std::vector<WorkerFit>& workers, const cluster::ClusterConfig& file) {
  for (const cluster::WorkerProfile& profile : cluster::all_profiles(file))
    for (WorkerFit& worker : workers)
      if (worker.worker == profile.name) worker.file_step = profile.device.step_seconds;
}

Result<void> apply_fit(cluster::ClusterConfig& config, const std::vector<WorkerFit>& workers,
                       const LinkFit& links, const RunRecord& record) {
  if (links.unshaped && cluster::names_links(config)) RUBATO_TRY(cluster::remove_links(config));
  cluster::split_groups(config);
  std::vector<std::string> absent;
  for (const cluster::WorkerGroup& group : config.workers)
    if (std::ranges::find(record.workers, group.name, &WorkerRecord::id) == record.workers.end())
      absent.push_back(group.name);
  for (const std::string& name : absent) RUBATO_TRY(cluster::remove_workers(config, name));
  for (const WorkerFit& fit : workers)
    if (cluster::WorkerGroup* const group = group_of(config, fit.worker)) set_device(*group, fit);
  for (const auto& [worker, more] : links.more_latency)
    if (cluster::WorkerGroup* const group = group_of(config, worker))
      group->link.latency_seconds = std::max(0.0, group->link.latency_seconds + more);
  retime_joins(config, record);
  add_lives(config, record, workers);
  return {};
}

}  // namespace rubato::cli::whatif
