#include "report/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "base/check.hpp"
#include "base/text.hpp"
#include "scheduler/stop_criterion.hpp"
#include "sync/factory.hpp"

namespace rubato::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double or_infinity(double value) {
  return std::isnan(value) ? kInfinity : value;
}

// The run in the middle, ordered by time to target, then by final loss, then by seed.
std::size_t typical_run(const std::vector<RunRecord>& runs, std::vector<std::size_t> indices) {
  const auto key = [&](std::size_t i) {
    const RunRecord& run = runs[i];
    return std::tuple(run.time_to_target_seconds.value_or(kInfinity), or_infinity(run.final_loss),
                      run.seed, i);
  };
  std::ranges::sort(indices, {}, key);
  return indices[(indices.size() - 1) / 2];
}

ModelSummary summarize_model(const Comparison& comparison, std::vector<std::size_t> indices) {
  const std::vector<RunRecord>& runs = comparison.runs;
  const auto median_of = [&](auto value) {
    std::vector<double> values;
    for (const std::size_t i : indices) values.push_back(static_cast<double>(value(runs[i])));
    return median(std::move(values));
  };
  const auto mean_of = [&](double RunRecord::*share) {
    double sum = 0;
    for (const std::size_t i : indices) sum += runs[i].*share;
    return sum / static_cast<double>(indices.size());
  };

  ModelSummary summary;
  summary.sync = runs[indices.front()].sync;
  summary.title = model_title(summary.sync);
  summary.typical_run = typical_run(runs, indices);
  summary.reached = static_cast<std::size_t>(std::ranges::count_if(
      indices, [&](std::size_t i) { return runs[i].time_to_target_seconds.has_value(); }));
  const double time = median_of(
      [](const RunRecord& run) { return run.time_to_target_seconds.value_or(kInfinity); });
  if (std::isfinite(time)) summary.time_to_target = time;
  if (comparison.linear_bound_seconds && std::isfinite(time) && time > 0)
    summary.bound_share = *comparison.linear_bound_seconds / time;
  summary.time_min = kInfinity;
  for (const std::size_t i : indices) {
    const double arrival = runs[i].time_to_target_seconds.value_or(kInfinity);
    summary.time_min = std::min(summary.time_min, arrival);
    summary.time_max = std::max(summary.time_max, arrival);
  }
  summary.seconds = median_of([](const RunRecord& run) { return run.seconds; });
  summary.steps = median_of([](const RunRecord& run) { return run.steps; });
  summary.commits = median_of([](const RunRecord& run) { return run.commits; });
  summary.dropped_commits = median_of([](const RunRecord& run) { return run.dropped_commits; });
  summary.bytes_up = median_of([](const RunRecord& run) { return run.bytes_up; });
  summary.bytes_down = median_of([](const RunRecord& run) { return run.bytes_down; });
  summary.measured =
      std::ranges::all_of(indices, [&](std::size_t i) { return runs[i].measured(); });
  if (summary.measured) {
    summary.final_loss =
        median_of([&](const RunRecord& run) { return final_figures(comparison, run).loss; });
    summary.final_accuracy =
        median_of([&](const RunRecord& run) { return final_figures(comparison, run).accuracy; });
  }
  summary.spoiling = finding::spoiling(runs[summary.typical_run]);
  if (!summary.spoiling && summary.measured && !std::isfinite(summary.final_loss))
    summary.spoiling = &finding::spoiling_of(finding::kDiverged);
  summary.heterogeneity = median_of([](const RunRecord& run) { return run.heterogeneity; });
  summary.compute_share = mean_of(&RunRecord::compute_share);
  summary.wait_share = mean_of(&RunRecord::wait_share);
  summary.communicate_share = mean_of(&RunRecord::communicate_share);
  std::vector<const std::vector<PathPart>*> paths;
  for (const std::size_t i : indices)
    if (!runs[i].path.empty()) paths.push_back(&runs[i].path);
  summary.path = mean_path(paths);
  summary.runs = std::move(indices);
  return summary;
}

// "46 % less time than BSP (11 min 20 s)"; requires `time` <= the other's.
std::string less_time_than(double time, const ModelSummary& other) {
  const double theirs = *other.time_to_target;
  const double percent = theirs > 0 ? 100 * (theirs - time) / theirs : 0;
  const std::string who = fmt::format("{} ({})", other.title, duration_text(theirs));
  if (percent < 0.5) return fmt::format("as much time as {}", who);
  return fmt::format("{:.0f} % less time than {}", percent, who);
}

// Where nobody measured a loss, what is left is how much each model gets done.
std::string headline_without_loss(const std::vector<ModelSummary>& summaries) {
  const ModelSummary& most = *std::ranges::max_element(summaries, {}, &ModelSummary::steps);
  std::string text = fmt::format("{} made {} in {}", most.title, count_of(most.steps, "step"),
                                 duration_text(most.seconds));
  if (summaries.size() == 1) return text + "; timing only.";
  const ModelSummary& least = *std::ranges::min_element(summaries, {}, &ModelSummary::steps);
  return fmt::format("{}, the most of {} models; {} made {}; timing only.", text, summaries.size(),
                     least.title, count_text(least.steps));
}

// A loss that can be compared with others.
bool is_result(const ModelSummary& summary) {
  return summary.measured && !summary.spoiling;
}

// The result with the lowest loss; null: no model has one.
const ModelSummary* lowest_loss(const std::vector<ModelSummary>& summaries) {
  const auto order = [](const ModelSummary& s) { return std::pair(!is_result(s), s.final_loss); };
  const ModelSummary& best = *std::ranges::min_element(summaries, {}, order);
  return is_result(best) ? &best : nullptr;
}

std::string listed(std::vector<std::string> words) {
  const std::string last = words.back();
  words.pop_back();
  return words.empty() ? last : fmt::format("{} and {}", fmt::join(words, ", "), last);
}

// "BSP and ADSP diverged, SSP overfitted"; empty: every loss is a result.
std::string spoilt_text(const std::vector<ModelSummary>& summaries) {
  std::vector<std::string> parts;
  for (const finding::Spoiling& each : finding::kSpoiling) {
    std::vector<std::string> titles;
    for (const ModelSummary& summary : summaries)
      if (summary.spoiling == &each) titles.push_back(summary.title);
    if (!titles.empty()) parts.push_back(fmt::format("{} {}", listed(titles), each.words));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The same, of models of which none has a result, with what to do about the worst.
std::string spoilt_and_advice(const std::vector<ModelSummary>& summaries) {
  std::string text = spoilt_text(summaries);
  for (const finding::Spoiling& each : finding::kSpoiling)
    if (!each.advice.empty() && std::ranges::count(summaries, &each, &ModelSummary::spoiling) > 0)
      return fmt::format("{}; {}", text, each.advice);
  return text;
}

std::string headline_without_target(const std::vector<ModelSummary>& summaries) {
  const std::string spoilt = spoilt_text(summaries);
  const ModelSummary* best = lowest_loss(summaries);
  if (!best)
    return spoilt.empty() ? headline_without_loss(summaries) : spoilt_and_advice(summaries) + ".";
  std::string text = fmt::format("{} ended with a loss of {} after {}", best->title,
                                 loss_text(best->final_loss), duration_text(best->seconds));
  const auto results = std::ranges::count_if(summaries, is_result);
  if (results > 1) text += fmt::format(", the lowest of {} models", results);
  if (!spoilt.empty()) return fmt::format("{}; {}.", text, spoilt);
  if (results == 1) return text + ".";
  const ModelSummary& worst = *std::ranges::max_element(summaries, {}, &ModelSummary::final_loss);
  return fmt::format("{}; {} ended with {}.", text, worst.title, loss_text(worst.final_loss));
}

std::string headline_of_none(const std::string& target,
                             const std::vector<ModelSummary>& summaries) {
  const std::string spoilt = spoilt_text(summaries);
  const ModelSummary* nearest = lowest_loss(summaries);
  if (nearest)
    return fmt::format("No model reached {}. {} ended nearest, with a loss of {} after {}{}{}.",
                       target, nearest->title, loss_text(nearest->final_loss),
                       duration_text(nearest->seconds), spoilt.empty() ? "" : "; ", spoilt);
  if (spoilt.empty())
    return fmt::format("No model reached {}; none was evaluated in every run.", target);
  return fmt::format("No model reached {}: {}.", target, spoilt_and_advice(summaries));
}

// One seed has no range: then only equal times are first together.
void mark_first(std::vector<ModelSummary>& summaries) {
  const auto time = [](const ModelSummary& s) { return s.time_to_target.value_or(kInfinity); };
  const ModelSummary best = *std::ranges::min_element(summaries, {}, time);
  if (!best.time_to_target) return;
  for (ModelSummary& s : summaries) s.first = s.time_to_target && s.time_min <= best.time_max;
}

// "40.0 s (38.0 s to 45.0 s)".
std::string time_with_range(const ModelSummary& summary) {
  if (summary.runs.size() == 1) return duration_text(*summary.time_to_target);
  return fmt::format("{} ({} to {})", duration_text(*summary.time_to_target),
                     duration_text(summary.time_min), duration_or(summary.time_max, "never"));
}

// Requires: several of `ranking` are first.
std::string headline_of_several(const std::string& target,
                                const std::vector<const ModelSummary*>& ranking) {
  std::vector<std::string> names, times;
  for (const ModelSummary* summary : ranking) {
    if (!summary->first) continue;
    names.push_back(summary->title);
    times.push_back(time_with_range(*summary));
  }
  std::string text =
      fmt::format("{} are first to reach {}: in {}. ", listed(names), target, listed(times));
  text += ranking.front()->runs.size() == 1 ? "They are equal."
                                            : "The seeds' ranges meet, so none of them wins.";
  const auto next = std::ranges::find(ranking, false, &ModelSummary::first);
  if (next != ranking.end() && (*next)->time_to_target)
    text += fmt::format(" {} follows with {}.", (*next)->title,
                        duration_text(*(*next)->time_to_target));
  return text;
}

}  // namespace

Judged judged(const std::vector<EvaluationRecord>& evaluations, std::size_t at) {
  RUBATO_CHECK(at < evaluations.size(), "no such evaluation");
  const std::size_t window = std::min(at + 1, scheduler::kSmoothedEvaluations);
  Judged mean{.classes = {0, 0, 0}};
  for (std::size_t i = at + 1 - window; i <= at; ++i) {
    mean.loss += evaluations[i].loss / static_cast<double>(window);
    for (const ClassFigure& figure : kClassFigures)
      mean.classes.*figure.value +=
          evaluations[i].classes.*figure.value / static_cast<double>(window);
    mean.accuracy += evaluations[i].accuracy / static_cast<double>(window);
  }
  return mean;
}

Judged final_figures(const Comparison& comparison, const RunRecord& run) {
  if (!comparison.has_target())
    return {run.final_loss, run.final_accuracy, run.evaluations.back().classes};
  std::size_t last = run.evaluations.size() - 1;
  // The evaluation that reached the target; a real run may have measured once more after it.
  if (const auto reached = run.time_to_target_seconds)
    while (last > 0 && run.evaluations[last].seconds > *reached) --last;
  return judged(run.evaluations, last);
}

double median(std::vector<double> values) {
  RUBATO_CHECK(!values.empty(), "a median needs values");
  std::ranges::transform(values, values.begin(), or_infinity);
  std::ranges::sort(values);
  const double upper = values[values.size() / 2];
  if (values.size() % 2 == 1 || std::isinf(upper)) return upper;
  return (values[values.size() / 2 - 1] + upper) / 2;
}

std::vector<ModelSummary> summarize(const Comparison& comparison) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    const auto same_model = [&](const std::vector<std::size_t>& group) {
      return comparison.runs[group.front()].sync == comparison.runs[i].sync;
    };
    const auto group = std::ranges::find_if(groups, same_model);
    if (group == groups.end()) {
      groups.push_back({i});
    } else {
      group->push_back(i);
    }
  }

  std::vector<ModelSummary> summaries;
  for (auto& group : groups) summaries.push_back(summarize_model(comparison, group));
  if (!summaries.empty()) mark_first(summaries);
  const std::string baseline = sync::baseline_model();
  const auto base = std::ranges::find(summaries, baseline, &ModelSummary::sync);
  if (base == summaries.end() || base->time_to_target.value_or(0) <= 0) return summaries;
  const double base_time = *base->time_to_target;
  for (ModelSummary& summary : summaries) {
    if (summary.sync == baseline || !summary.time_to_target) continue;
    summary.saving = (base_time - *summary.time_to_target) / base_time;
  }
  return summaries;
}

std::string model_title(std::string_view sync) {
  const auto model = sync::find_model(sync);
  return std::string(model ? model->title : sync);
}

std::string target_text(const Comparison& comparison) {
  return targets_text(comparison.target_loss, comparison.target_accuracy, comparison.class_targets,
                      comparison.task);
}

std::string headline(const Comparison& comparison, const std::vector<ModelSummary>& summaries) {
  RUBATO_CHECK(!summaries.empty(), "a headline needs a model");
  const std::string target = target_text(comparison);
  if (target.empty()) return headline_without_target(summaries);

  std::vector<const ModelSummary*> ranking;
  for (const ModelSummary& summary : summaries) ranking.push_back(&summary);
  const auto time = [](const ModelSummary* s) { return s->time_to_target.value_or(kInfinity); };
  std::ranges::stable_sort(ranking, {}, time);
  const ModelSummary& best = *ranking.front();
  if (!best.time_to_target) return headline_of_none(target, summaries);
  if (comparison.runs[best.typical_run].found(finding::kTargetMetAtStart))
    return fmt::format("The first evaluation meets {} already, so the time to target says nothing.",
                       target);
  if (std::ranges::count(summaries, true, &ModelSummary::first) > 1)
    return headline_of_several(target, ranking);

  std::string text =
      fmt::format("{} reached {} in {}", best.title, target, duration_text(*best.time_to_target));
  if (ranking.size() == 1) return text + ".";
  const ModelSummary& next = *ranking[1];
  const auto base = std::ranges::find(summaries, sync::baseline_model(), &ModelSummary::sync);
  const bool against_base = base != summaries.end() && base->sync != best.sync;
  const ModelSummary& rival = against_base ? *base : next;
  if (!rival.time_to_target) {
    return fmt::format("{}; {} did not reach it within {}.", text, rival.title,
                       duration_text(rival.seconds));
  }
  text += ", " + less_time_than(*best.time_to_target, rival);
  if (next.sync != rival.sync && next.time_to_target) {
    text += fmt::format(" and {}, the next best", less_time_than(*best.time_to_target, next));
  }
  return text + ".";
}

std::vector<std::string> finding_lines(const Comparison& comparison) {
  // One text of each kind that a model has, and its seeds. A run may have several of a code.
  struct Line {
    std::string sync;
    Finding found;
    std::size_t place;  // among those of its code in a run
    std::vector<std::string> seeds;
  };
  std::vector<Line> lines;
  const std::vector<RunRecord>& runs = comparison.runs;
  for (const RunRecord& run : runs) {
    std::map<std::string, std::size_t> places;
    for (const Finding& found : run.findings) {
      const std::size_t place = places[found.code]++;
      const auto known = std::ranges::find_if(lines, [&](const Line& line) {
        return line.sync == run.sync && line.found.code == found.code && line.place == place;
      });
      const std::string seed = std::to_string(run.seed);
      if (known == lines.end())
        lines.push_back({run.sync, found, place, {seed}});
      else
        known->seeds.push_back(seed);
    }
  }
  const auto common = [&](const Finding& found) {
    return std::ranges::all_of(runs, [&](const RunRecord& run) {
      return std::ranges::find(run.findings, found) != run.findings.end();
    });
  };
  std::vector<std::string> texts;
  for (const Line& line : lines) {
    const auto of_model =
        static_cast<std::size_t>(std::ranges::count(runs, line.sync, &RunRecord::sync));
    std::string text = line.found.text;
    if (!common(line.found)) {
      std::string who = model_title(line.sync);
      if (line.seeds.size() < of_model)
        who += line.seeds.size() > 3 ? fmt::format(", {} of {} seeds", line.seeds.size(), of_model)
               : line.seeds.size() > 1 ? ", seeds " + listed(line.seeds)
                                       : ", seed " + line.seeds.front();
      text = fmt::format("{}: {}", who, text);
    }
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts;
}

std::string busy_note(const Comparison& comparison) {
  const WorkerRecord* worst = nullptr;
  for (const RunRecord& run : comparison.runs)
    for (const WorkerRecord& worker : run.workers)
      if (!worst || worker.late_share() > worst->late_share()) worst = &worker;
  if (!worst || worst->late_share() <= kLateShareMax) return {};
  return fmt::format(
      "steps of {} took {:.0f} % longer than the cluster file says: its box was too slow or too "
      "busy, and times are too long",
      worst->id, 100 * worst->late_share());
}

}  // namespace rubato::report
