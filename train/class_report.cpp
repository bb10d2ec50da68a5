#include "train/class_report.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "train/loss.hpp"

namespace rubato::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? kNan : static_cast<double>(part) / static_cast<double>(whole);
}

// Larger for samples that the model thinks more likely to be of class `c`. Probabilities themselves
// would be 1 for many, and tie.
double leaning(std::span<const float> row, std::size_t c) {
  double rival = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < row.size(); ++j)
    if (j != c) rival = std::max(rival, static_cast<double>(row[j]));
  double sum = 0;
  for (std::size_t j = 0; j < row.size(); ++j)
    if (j != c) sum += std::exp(row[j] - rival);
  return row[c] - rival - std::log(sum);
}

double auc_of(std::span<const float> scores, std::span<const std::int32_t> labels,
              std::size_t classes, std::size_t c) {
  std::vector<std::pair<double, bool>> ranked(labels.size());
  double own = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool is = labels[i] == static_cast<std::int32_t>(c);
    ranked[i] = {leaning(scores.subspan(i * classes, classes), c), is};
    if (!std::isfinite(ranked[i].first)) return kNan;
    own += is;
  }
  const double others = static_cast<double>(labels.size()) - own;
  if (own == 0 || others == 0) return kNan;
  std::ranges::sort(ranked);
  double wins = 0, below = 0;  // others with a lower score
  for (std::size_t i = 0; i < ranked.size();) {
    double tied_own = 0, tied = 0;
    const double score = ranked[i].first;
    for (; i < ranked.size() && ranked[i].first == score; ++i) {
      ++tied;
      tied_own += ranked[i].second;
    }
    wins += tied_own * (below + (tied - tied_own) / 2);
    below += tied - tied_own;
  }
  return wins / (own * others);
}

// Of the classes that have the figure; NaN: none has.
double mean(const std::vector<ClassReport::PerClass>& classes,
            double ClassReport::PerClass::*figure) {
  double sum = 0, count = 0;
  for (const auto& of : classes) {
    if (std::isnan(of.*figure)) continue;
    sum += of.*figure;
    ++count;
  }
  return count == 0 ? kNan : sum / count;
}

}  // namespace

ClassReport class_report(Loss loss, std::span<const float> scores,
                         std::span<const std::int32_t> labels, int classes,
                         std::span<const float> class_weights, std::span<const float> weights) {
  RUBATO_CHECK(
      !labels.empty() && scores.size() == labels.size() * static_cast<std::size_t>(classes),
      "one score a sample and class");
  const auto n = static_cast<std::size_t>(classes);
  const auto samples = static_cast<double>(labels.size());
  ClassReport report;
  const BatchResult sums =
      loss_and_gradient<float>(loss, scores.data(), {.labels = labels, .weights = weights},
                               static_cast<int>(labels.size()), classes, nullptr, class_weights);
  report.loss = sums.loss_sum / samples;
  report.accuracy = sums.correct / samples;
  report.confusion.resize(n * n);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = scores.subspan(i * n, n);
    const auto predicted = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
    ++report.confusion[static_cast<std::size_t>(labels[i]) * n + predicted];
  }
  double lowest = 2;
  for (std::size_t c = 0; c < n; ++c) {
    std::uint64_t predicted = 0, own = 0;
    for (std::size_t other = 0; other < n; ++other) {
      predicted += report.confusion[other * n + c];
      own += report.confusion[c * n + other];
    }
    const std::uint64_t correct = report.confusion[c * n + c];
    report.classes.push_back({own, share(correct, predicted), share(correct, own),
                              share(2 * correct, predicted + own), auc_of(scores, labels, n, c)});
    if (own > 0 && report.classes.back().recall < lowest) {
      lowest = report.classes.back().recall;
      report.worst = c;
    }
  }
  report.balanced_accuracy = mean(report.classes, &ClassReport::PerClass::recall);
  report.f1 = mean(report.classes, &ClassReport::PerClass::f1);
  report.auc = mean(report.classes, &ClassReport::PerClass::auc);
  return report;
}

void to_shown_scores(Loss loss, std::span<float> scores) {
  if (loss != Loss::SoftmaxCrossEntropy) return;
  const float largest = *std::ranges::max_element(scores);
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - largest);
  for (float& score : scores) score /= sum;
}

}  // namespace rubato::train
