#include "scheduler/run_book.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.hpp"

namespace rubato::scheduler {
namespace {

// What no worker reaches: more is not believed.
constexpr double kStepsPerSecondMax = 1e7;
constexpr double kStepsAtOnceMax = 1e6;
// The most commit counts of all lives together: 2 MiB, unless there are very many lives.
constexpr std::size_t kCommitCountValuesMax = 256 * 1024;
constexpr std::size_t kCommitCountsMin = 64;

// As in WorkerRecord.
std::string fate_name(Life life) {
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

// Numbers end at the limit of 64 bits, times likewise.
void add(WorkerFigures& sum, const WorkerFigures& more) {
  for (const WorkerFigure& row : kWorkerFigures) {
    if (row.time)
      sum.*row.time += more.*row.time;
    else
      sum.*row.number = proto::sum_of(sum.*row.number, more.*row.number);
  }
}

}  // namespace

bool RunBook::is_possible(WorkerId worker, const proto::Progress& progress,
                          Duration member_for) const {
  const proto::Progress& before = progress_[worker.value];
  const double most = kStepsAtOnceMax + kStepsPerSecondMax * member_for.seconds();
  return progress.steps >= before.steps && progress.commits >= before.commits &&
         progress.dropped_commits >= before.dropped_commits &&
         progress.dropped_samples >= before.dropped_samples &&
         progress.dropped_commits <= progress.commits &&
         static_cast<double>(std::max(progress.steps, progress.commits)) <= most;
}

void RunBook::on_progress(WorkerId worker, const proto::Progress& progress) {
  proto::Progress& before = progress_[worker.value];
  RUBATO_CHECK(progress.steps >= before.steps && progress.commits >= before.commits,
               "totals only grow");
  steps_ = proto::sum_of(steps_, progress.steps - before.steps);
  commits_ = proto::sum_of(commits_, progress.commits - before.commits);
  before = progress;
}

void RunBook::on_evaluation(double t, double loss, double accuracy, const ClassFigures& classes) {
  auto& kept = record_.commit_counts;
  // Each life of a worker has its count in each of them.
  const std::size_t most = std::clamp(kCommitCountValuesMax / (progress_.size() + 1),
                                      kCommitCountsMin, kCommitCountsMax);
  while (kept.size() >= most && evaluated_ % stride_ == 0) {
    for (std::size_t i = 1; 2 * i < kept.size(); ++i) kept[i] = std::move(kept[2 * i]);
    kept.resize((kept.size() + 1) / 2);
    stride_ *= 2;
  }
  if (evaluated_ % stride_ == 0) {
    CommitCountRecord counts{t, {}};
    for (const auto& progress : progress_) counts.commits.push_back(progress.commits);
    kept.push_back(std::move(counts));
  }
  lowest_loss_ = std::min(lowest_loss_, loss);
  auto& evaluations = record_.evaluations;
  // The newest one gives its place to the next, unless it stays.
  if (evaluated_ > 0 && (evaluated_ - 1) % kept_each_ != 0) evaluations.pop_back();
  if (evaluations.size() == kEvaluationsMax) {
    for (std::size_t i = 1; 2 * i < evaluations.size(); ++i) evaluations[i] = evaluations[2 * i];
    evaluations.resize(kEvaluationsMax / 2);
    kept_each_ *= 2;
  }
  evaluations.push_back({t, steps_, commits_, loss, accuracy, classes});
  ++evaluated_;
}

// H = mean(v) / min(v) of the measured speeds v. All incarnations of one name are one worker.
double RunBook::heterogeneity(const Roster& roster) const {
  struct Measured {
    double compute = 0;  // seconds
    std::uint64_t steps = 0;
  };
  std::vector<Measured> measured;
  std::map<std::string_view, std::size_t> places;
  for (WorkerId id; roster.knows(id); ++id.value) {
    const auto place = places.emplace(roster[id].name, measured.size()).first->second;
    if (place == measured.size()) measured.emplace_back();
    measured[place].compute += progress(id).compute.seconds();
    measured[place].steps += progress(id).steps;
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

RunRecord RunBook::record(const Roster& roster, const Run& run, const LossMerge& losses,
                          const Exclusion& exclusion) const {
  RunRecord record = record_;
  record.stop_reason = run.stop_reason().value_or("still running");
  record.seconds = run.stopped() ? run.length({}) : 0;
  record.steps = steps_;
  record.commits = commits_;
  std::vector<WorkerId> all;
  for (WorkerId id; roster.knows(id); ++id.value) all.push_back(id);
  all = roster.ordered(std::move(all));
  const bool by_join = std::ranges::is_sorted(all);
  for (CommitCountRecord& counts : record.commit_counts) {
    if (by_join) break;
    const auto by_id = std::move(counts.commits);
    counts.commits.assign(all.size(), 0);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].value < by_id.size()) counts.commits[i] = by_id[all[i].value];
  }
  for (const WorkerId id : all) {
    const Roster::Worker& worker = roster[id];
    const LossMerge::Told& told = losses.told(id);
    const proto::Progress& p = progress(id);
    add(record, p);
    WorkerRecord& row = record.workers.emplace_back();
    static_cast<WorkerFigures&>(row) = p;
    row.id = worker.name;
    row.number = id.value;
    row.steps = p.steps;
    row.commits = p.commits;
    row.step_seconds = p.steps > 0 ? p.compute.seconds() / static_cast<double>(p.steps) : 0;
    row.fate = fate_name(worker.life);
    row.joined_seconds = std::max(0.0, run.seconds(worker.joined_at));
    if (worker.gone_at) row.left_seconds = std::max(0.0, run.seconds(*worker.gone_at));
    row.held_out_samples = told.evaluation.samples;
    row.held_out_loss = told.evaluation.loss;
    row.held_out_accuracy = told.evaluation.accuracy;
    row.training_loss = told.loss;
    row.left_out = worker.left_out;
    row.refused = exclusion.refused(id);
    for (std::size_t i = 0; i < row.refused.size(); ++i)
      record.refused[i] = proto::sum_of(record.refused[i], row.refused[i]);
  }
  if (exclusion.watches())
    record.refused_commits =
        std::accumulate(record.refused.begin(), record.refused.end(), std::uint64_t{0});
  const double total = (record.compute + record.wait + record.communicate).seconds();
  if (total > 0) {
    record.compute_share = record.compute.seconds() / total;
    record.wait_share = record.wait.seconds() / total;
    record.communicate_share = record.communicate.seconds() / total;
  }
  record.heterogeneity = heterogeneity(roster);
  if (!record_.evaluations.empty()) {
    record.final_loss = record_.evaluations.back().loss;
    record.final_accuracy = record_.evaluations.back().accuracy;
  }
  return record;
}

}  // namespace rubato::scheduler
