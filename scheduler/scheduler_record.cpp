// The record of the run: what the scheduler heard, in sums and curves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/scheduler.hpp"

namespace rubato::scheduler {

std::string Scheduler::life_name(Life life) {
  switch (life) {
    case Life::Left:
      return "left";
    case Life::Lost:
    case Life::Stalled:
    case Life::Replaced:
      return "lost";
    case Life::Aside:
      return "set aside";
    case Life::Joined:
    case Life::Training:
    case Life::Rejoining:
    case Life::Done:  // a member to the end
      return "member";
  }
  return "member";
}

void Scheduler::record_evaluation(double t, double loss, double accuracy,
                                  const ClassFigures& classes) {
  auto& kept = record_.commit_counts;
  if (record_.evaluations.size() % commit_count_stride_ == 0) {
    if (kept.size() == kCommitCountsMax) {
      for (std::size_t i = 1; 2 * i < kept.size(); ++i) kept[i] = std::move(kept[2 * i]);
      kept.resize(kCommitCountsMax / 2);
      commit_count_stride_ *= 2;
    }
    CommitCountRecord counts{t, {}};
    for (const auto& worker : workers_) counts.commits.push_back(worker.progress.commits);
    kept.push_back(std::move(counts));
  }
  record_.evaluations.push_back({t, steps(), commits_, loss, accuracy, classes});
  const auto measured = std::isnan(accuracy)
                            ? std::string()
                            : fmt::format(" {} {:.4f}", figure_of(options_.task).word, accuracy);
  log(SchedulerEvent::Kind::Evaluation,
      fmt::format("evaluation at {:.3f} s: loss {:.6f}{} steps {} commits {}", t, loss, measured,
                  steps(), commits_));
}

double Scheduler::lowest_loss() const {
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& evaluation : record_.evaluations) lowest = std::min(lowest, evaluation.loss);
  return lowest;
}

// H = mean(v) / min(v) of the measured speeds v. All incarnations of one name are one worker.
double Scheduler::heterogeneity() const {
  struct Measured {
    double compute = 0;  // seconds
    std::uint64_t steps = 0;
  };
  std::vector<Measured> measured;
  std::map<std::string_view, std::size_t> places;
  for (WorkerId id; roster_.knows(id); ++id.value) {
    const auto place = places.emplace(roster_[id].name, measured.size()).first->second;
    if (place == measured.size()) measured.emplace_back();
    measured[place].compute += workers_[id.value].progress.compute.seconds();
    measured[place].steps += workers_[id.value].progress.steps;
  }
  double sum = 0, slowest = 0;
  std::uint32_t timed = 0;
  for (const auto& [seconds, steps] : measured) {
    if (steps == 0 || seconds <= 0) continue;
    const double speed = 1 / (seconds / static_cast<double>(steps));
    sum += speed;
    slowest = timed == 0 ? speed : std::min(slowest, speed);
    ++timed;
  }
  return timed > 0 ? sum / timed / slowest : 0;
}

RunRecord Scheduler::record() const {
  RunRecord record = record_;
  record.sync = options_.sync;
  record.seed = options_.seed;
  record.time_to_target_seconds = criterion_.time_to_target();
  record.stop_reason = run_.stop_reason().value_or("still running");
  record.seconds = run_.stopped() ? run_.length({}) : 0;
  record.steps = steps();
  record.commits = commits_;
  double compute = 0, wait = 0, communicate = 0;
  std::vector<WorkerId> all;
  for (WorkerId id; roster_.knows(id); ++id.value) all.push_back(id);
  all = roster_.ordered(std::move(all));
  const bool by_join = std::ranges::is_sorted(all);
  for (CommitCountRecord& counts : record.commit_counts) {
    if (by_join) break;
    const auto by_id = std::move(counts.commits);
    counts.commits.assign(all.size(), 0);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].value < by_id.size()) counts.commits[i] = by_id[all[i].value];
  }
  for (const WorkerId id : all) {
    const Roster::Worker& known = roster_[id];
    const WorkerState& worker = workers_[id.value];
    const auto& p = worker.progress;
    record.bytes_up = proto::sum_of(record.bytes_up, p.bytes_up);
    record.bytes_down = proto::sum_of(record.bytes_down, p.bytes_down);
    compute += p.compute.seconds();
    wait += p.wait.seconds();
    communicate += p.communicate.seconds();
    const double step = p.steps > 0 ? p.compute.seconds() / static_cast<double>(p.steps) : 0;
    const auto gone =
        known.gone_at ? std::optional(std::max(0.0, run_.seconds(*known.gone_at))) : std::nullopt;
    record.workers.push_back({known.name, p.steps, p.commits, p.compute.seconds(), p.wait.seconds(),
                              p.communicate.seconds(), step, life_name(known.life),
                              std::max(0.0, run_.seconds(known.joined_at)), gone,
                              worker.evaluation.samples, worker.evaluation.loss,
                              worker.evaluation.accuracy});
    record.workers.back().late_seconds = p.late.seconds();
    record.workers.back().number = id.value;
    record.workers.back().training_loss = worker.loss;
    record.workers.back().left_out = known.left_out;
    const RefusedByReason refused = exclusion_.refused(id);
    record.workers.back().refused = refused;
    for (std::size_t i = 0; i < refused.size(); ++i)
      record.refused[i] = proto::sum_of(record.refused[i], refused[i]);
  }
  if (exclusion_.watches())
    record.refused_commits =
        std::accumulate(record.refused.begin(), record.refused.end(), std::uint64_t{0});
  record.setbacks = setbacks_.count();
  const double total = compute + wait + communicate;
  if (total > 0) {
    record.compute_share = compute / total;
    record.wait_share = wait / total;
    record.communicate_share = communicate / total;
  }
  record.heterogeneity = heterogeneity();
  if (!record_.evaluations.empty()) {
    record.final_loss = record_.evaluations.back().loss;
    record.final_accuracy = record_.evaluations.back().accuracy;
  }
  return record;
}

}  // namespace rubato::scheduler
