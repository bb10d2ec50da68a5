#include "scheduler/loss_merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "base/words.hpp"

namespace rubato::scheduler {
namespace {

// Of the usual loss: a worker's figures above it do not count.
constexpr double kAbsurdFactor = 1000;
// A GPU tells the losses of steps that were made before this membership.
constexpr double kStepsUntold = 64;

std::string held_out_text(std::uint64_t claimed, double count, const char* why) {
  return fmt::format("says that it has held out {}: {:.0f} count, {}",
                     rubato::counted(claimed, "sample"), count, why);
}

// The value at this place of them in order.
double ranked(std::vector<double> values, std::size_t place) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::ranges::nth_element(values, at);
  return *at;
}

// False for NaN.
bool within(double figure, double most) {
  return figure >= 0 && figure <= most;
}

}  // namespace

void LossMerge::on_directive(WorkerId worker, std::uint32_t batch) {
  std::uint32_t& largest = told_[worker.value].largest_batch;
  largest = std::max(largest, batch);
}

void LossMerge::on_progress(WorkerId worker, const proto::Progress& progress) {
  if (progress.loss_samples > 0) told_[worker.value].loss = progress.loss;
  const double count = counted_samples(worker, progress);
  if (count <= 0) return;
  LossSum& sum = training_[worker];
  sum.loss += progress.loss * count;
  sum.samples += count;
}

void LossMerge::on_evaluation(WorkerId worker, const proto::Evaluation& evaluation) {
  if (evaluation.samples == 0) return;
  proto::Evaluation& own = told_[worker.value].evaluation;
  own = evaluation;
  evaluated_ = true;
  const auto known = options_.held_out.find(roster_[worker].name);
  if (known == options_.held_out.end() || own.samples <= known->second) return;
  say_overstated(worker, held_out_text(own.samples, static_cast<double>(known->second),
                                       "for it has said how much data it has"));
  own.samples = known->second;
}

double LossMerge::counted(WorkerId worker, double of_all) {
  const std::uint64_t samples = told_[worker.value].evaluation.samples;
  const auto claimed = static_cast<double>(samples);
  const double others = of_all - claimed;
  if (!options_.watch || others == 0 || claimed <= others) return claimed;
  if (options_.held_out.contains(roster_[worker].name)) return claimed;
  say_overstated(worker, held_out_text(samples, others, "as many as all others have"));
  return others;
}

double LossMerge::counted_samples(WorkerId worker, const proto::Progress& progress) {
  Told& told = told_[worker.value];
  const auto claimed = static_cast<double>(progress.loss_samples);
  const double batch = std::max(options_.batch, told.largest_batch);
  const double had =
      (static_cast<double>(progress.steps) + kStepsUntold) * batch - told.loss_samples;
  const double count =
      !options_.watch || options_.batch == 0 ? claimed : std::clamp(had, 0.0, claimed);
  told.loss_samples += count;
  if (count < claimed)
    say_overstated(worker, fmt::format("reports the loss of {:.0f} samples: {:.0f} count, as many "
                                       "as its steps had",
                                       claimed, count));
  return count;
}

void LossMerge::say_overstated(WorkerId worker, const std::string& what) {
  if (std::exchange(told_[worker.value].overstated, true)) return;
  lines_.push(roster_.title(worker) + " " + what);
}

void LossMerge::say_left_out(WorkerId worker, double loss) {
  if (std::exchange(told_[worker.value].absurd, true)) return;
  lines_.push(
      fmt::format("{} reports a loss of {:g}: its figures are left out, for one of them is no "
                  "number, negative, or above {:.0f} times the usual one",
                  roster_.title(worker), loss, kAbsurdFactor));
}

// A box that is away keeps its last figures: its data are as hard as before. A later life of its
// name takes their place once it has figures of its own.
std::vector<WorkerId> LossMerge::measured() const {
  std::map<std::string_view, WorkerId> last;
  for (WorkerId id; roster_.knows(id); ++id.value)
    if (told_[id.value].evaluation.samples > 0 && roster_[id].life != Life::Aside)
      last.insert_or_assign(roster_[id].name, id);
  std::vector<WorkerId> all;
  for (const auto& [name, id] : last) all.push_back(id);
  std::ranges::sort(all);
  return all;
}

std::optional<LossMerge::Merged> LossMerge::evaluations() {
  if (!std::exchange(evaluated_, false)) return std::nullopt;
  const std::vector<WorkerId> workers = measured();
  double of_all = 0;
  std::size_t away = 0;
  for (const WorkerId id : workers) {
    of_all += static_cast<double>(told_[id.value].evaluation.samples);
    if (!roster_.members().contains(roster_[id].name)) ++away;
  }
  const double most_loss = largest_believed([](const Told& told) { return told.evaluation.loss; });
  const double most_square =
      largest_believed([](const Told& told) { return told.evaluation.target_square; });
  const double most_error =
      largest_believed([](const Told& told) { return told.evaluation.squared_error; });
  double loss = 0, samples = 0;
  double accuracy = 0, with_accuracy = 0;  // loops of users may measure a loss alone
  double squared_error = 0, target_mean = 0, target_square = 0;
  std::vector<double> gaps;
  for (const WorkerId id : workers) {
    const proto::Evaluation& own = told_[id.value].evaluation;
    const bool believed =
        within(own.loss, most_loss) && within(own.target_square, most_square) &&
        std::abs(own.target_mean) <= 1 + own.target_square &&
        within(own.squared_error, most_error) &&
        (options_.task == Task::Regression || std::isnan(own.accuracy) || within(own.accuracy, 1));
    if (options_.watch && std::isfinite(most_loss) && own.samples > 0 && !believed) {
      say_left_out(id, own.loss);
      continue;
    }
    const double count = counted(id, of_all);
    loss += count * own.loss;
    if (!std::isnan(own.accuracy)) {
      accuracy += count * own.accuracy;
      with_accuracy += count;
    }
    squared_error += count * own.squared_error;
    target_mean += count * own.target_mean;
    target_square += count * own.target_square;
    samples += count;
    if (own.gap) gaps.push_back(*own.gap);
  }
  if (samples == 0) return std::nullopt;
  // R^2 is no mean of the workers' own, whose targets vary otherwise.
  const double figure =
      options_.task == Task::Classification
          ? accuracy / with_accuracy  // NaN where nobody measures it
          : r_squared(squared_error / samples, target_mean / samples, target_square / samples);
  if (away != std::exchange(away_, away) && away > 0)
    lines_.push(fmt::format("{} of {} {} away: evaluations keep the last figures", away,
                            rubato::counted(workers.size(), "worker"), away == 1 ? "is" : "are"));
  Merged merged{loss / samples, figure};
  if (const std::size_t told = gaps.size(); told > 0)
    merged.gap = ranked(std::move(gaps), told / 2);
  return merged;
}

std::optional<double> LossMerge::training_loss() {
  const double most = largest_believed([](const Told& told) { return told.loss.value_or(0); });
  LossSum all;
  for (const auto& [id, sum] : std::exchange(training_, {})) {
    if (options_.watch && std::isfinite(most) && !within(sum.mean(), most)) {
      say_left_out(id, sum.mean());
      continue;
    }
    all.loss += sum.loss;
    all.samples += sum.samples;
  }
  return all.samples > 0 ? std::optional(all.mean()) : std::nullopt;
}

// One worker's word is not enough to say that the loss of all is not finite.
double LossMerge::largest_believed(double (*figure)(const Told&)) const {
  std::vector<double> all;
  for (const auto& [name, id] : roster_.members()) {
    const double each = figure(told_[id.value]);
    all.push_back(std::isfinite(each) ? each : std::numeric_limits<double>::infinity());
  }
  if (all.empty()) return kAbsurdFactor;
  // The lower one of two: one worker of two does not say what is usual.
  const std::size_t middle = (all.size() - 1) / 2;
  return kAbsurdFactor * std::max(1.0, ranked(std::move(all), middle));
}

}  // namespace rubato::scheduler
