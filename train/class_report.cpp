#include "train/class_report.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "train/loss.hpp"

namespace rubato::train {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ClassReport class_report(Loss loss, std::span<const float> scores,
                         std::span<const std::int32_t> labels, int classes) {
  RUBATO_CHECK(
      !labels.empty() && scores.size() == labels.size() * static_cast<std::size_t>(classes),
      "one score a sample and class");
  const auto n = static_cast<std::size_t>(classes);
  const auto samples = static_cast<double>(labels.size());
  ClassReport report;
  const BatchResult sums = loss_and_gradient<float>(
      loss, scores.data(), {.labels = labels}, static_cast<int>(labels.size()), classes, nullptr);
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
    report.classes.push_back({own, share(correct, predicted), share(correct, own)});
    if (own > 0 && report.classes.back().recall < lowest) {
      lowest = report.classes.back().recall;
      report.worst = c;
    }
  }
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
