// Precision, recall and confusion of a classifier, against numbers counted by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/rng.hpp"
#include "train/class_report.hpp"

namespace rubato::train {
namespace {

TEST_CASE("class report: confusion, precision, recall and the worst class") {
  // True 0 0 0 1 1 2, predicted 0 0 1 1 0 2; class 3 has no sample and is never predicted.
  const std::vector<std::int32_t> labels = {0, 0, 0, 1, 1, 2};
  const std::vector<std::size_t> predicted = {0, 0, 1, 1, 0, 2};
  std::vector<float> scores(labels.size() * 4);
  for (std::size_t i = 0; i < labels.size(); ++i) scores[4 * i + predicted[i]] = 3;
  const auto report = class_report(Loss::MultiClassHinge, scores, labels, 4);
  CHECK(report.accuracy == doctest::Approx(4.0 / 6));
  CHECK(report.loss == doctest::Approx((0 + 0 + 4 + 0 + 4 + 0) / 6.0));
  CHECK(report.confusion ==
        std::vector<std::uint64_t>{2, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
  CHECK(report.classes[0].precision == doctest::Approx(2.0 / 3));
  CHECK(report.classes[0].recall == doctest::Approx(2.0 / 3));
  CHECK(report.classes[1].precision == doctest::Approx(0.5));
  CHECK(report.classes[2].recall == doctest::Approx(1));
  CHECK(report.classes[3].samples == 0);
  CHECK(std::isnan(report.classes[3].precision));
  CHECK(std::isnan(report.classes[3].recall));
  CHECK(report.worst == 1);
}

// Scores by which each sample is of its predicted class.
std::vector<float> sure(const std::vector<std::size_t>& predicted, std::size_t classes) {
  std::vector<float> scores(predicted.size() * classes);
  for (std::size_t i = 0; i < predicted.size(); ++i) scores[classes * i + predicted[i]] = 3;
  return scores;
}

ClassReport report_of(const std::vector<std::int32_t>& labels, const std::vector<float>& scores,
                      int classes) {
  return class_report(Loss::SoftmaxCrossEntropy, scores, labels, classes);
}

// The examples and values are those of scikit-learn's documentation of f1_score,
// balanced_accuracy_score and roc_auc_score.
TEST_CASE("class report: F1, balanced accuracy and AUC as scikit-learn has them") {
  const auto three = report_of({0, 1, 2, 0, 1, 2}, sure({0, 2, 1, 0, 0, 1}, 3), 3);
  CHECK(three.classes[0].f1 == doctest::Approx(0.8));
  CHECK(three.classes[1].f1 == 0);
  CHECK(three.classes[2].f1 == 0);
  CHECK(three.f1 == doctest::Approx(0.8 / 3));
  const auto two = report_of({0, 1, 0, 0, 1, 0}, sure({0, 1, 0, 0, 0, 1}, 2), 2);
  CHECK(two.balanced_accuracy == doctest::Approx(0.625));
  CHECK(two.figures().recall == doctest::Approx(0.5));
  // Scores 0.1, 0.4, 0.35, 0.8 of the second class.
  const auto ranked = report_of({0, 0, 1, 1}, {0, 0.1f, 0, 0.4f, 0, 0.35f, 0, 0.8f}, 2);
  CHECK(ranked.classes[0].auc == doctest::Approx(0.75));
  CHECK(ranked.classes[1].auc == doctest::Approx(0.75));
  CHECK(ranked.auc == doctest::Approx(0.75));
}

TEST_CASE("class report: AUC by its definition, with ties, huge scores and many classes") {
  Rng rng(1);
  std::vector<std::int32_t> labels;
  std::vector<float> scores;
  for (int i = 0; i < 150; ++i) {
    labels.push_back(static_cast<std::int32_t>(rng.below(3)));
    for (int c = 0; c < 3; ++c)
      scores.push_back(static_cast<float>(rng.below(4)) + (labels.back() == c ? 1.0f : 0.0f));
  }
  const auto report = report_of(labels, scores, 3);
  double sum = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    const auto probability = [&](std::size_t i) {
      double all = 0;
      for (std::size_t j = 0; j < 3; ++j) all += std::exp(static_cast<double>(scores[3 * i + j]));
      return std::exp(static_cast<double>(scores[3 * i + c])) / all;
    };
    double wins = 0, pairs = 0;
    for (std::size_t a = 0; a < labels.size(); ++a)
      for (std::size_t b = 0; b < labels.size(); ++b) {
        if (labels[a] != static_cast<int>(c) || labels[b] == static_cast<int>(c)) continue;
        ++pairs;
        const double lead = probability(a) - probability(b);
        wins += std::abs(lead) < 1e-9 ? 0.5 : lead > 0 ? 1 : 0;
      }
    CHECK(report.classes[c].auc == doctest::Approx(wins / pairs));
    sum += wins / pairs;
  }
  CHECK(report.auc == doctest::Approx(sum / 3));
  // Probabilities of 1 as far as floats go: the order is still known.
  const auto sure_of_all = report_of({0, 1, 1}, {0, 200, 0, 300, 0, 400}, 2);
  CHECK(sure_of_all.auc == 1);
  CHECK(std::isnan(report_of({0, 0}, {1, 0, 1, 0}, 2).auc));
  CHECK(std::isnan(report_of({0, 1}, {1, NAN, 1, 0}, 2).auc));
}

TEST_CASE("class report: weights are in the loss alone") {
  const std::vector<float> scores = {0, 0, 0, 0}, weights = {3, 0.5f};
  const std::vector<std::int32_t> labels = {0, 1};
  const auto report = class_report(Loss::SoftmaxCrossEntropy, scores, labels, 2, weights);
  CHECK(report.loss == doctest::Approx(std::log(2.0) * (3 + 0.5) / 2));
  CHECK(report.accuracy == 0.5);
}

TEST_CASE("shown scores: probabilities of softmax, margins as they are") {
  std::vector<float> scores = {1000, 1000, -1000};
  to_shown_scores(Loss::SoftmaxCrossEntropy, scores);
  CHECK(scores == std::vector<float>{0.5F, 0.5F, 0});
  to_shown_scores(Loss::MultiClassHinge, scores);
  CHECK(scores == std::vector<float>{0.5F, 0.5F, 0});
}

}  // namespace
}  // namespace rubato::train
