// Precision, recall and confusion of a classifier, against numbers counted by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

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

TEST_CASE("shown scores: probabilities of softmax, margins as they are") {
  std::vector<float> scores = {1000, 1000, -1000};
  to_shown_scores(Loss::SoftmaxCrossEntropy, scores);
  CHECK(scores == std::vector<float>{0.5F, 0.5F, 0});
  to_shown_scores(Loss::MultiClassHinge, scores);
  CHECK(scores == std::vector<float>{0.5F, 0.5F, 0});
}

}  // namespace
}  // namespace rubato::train
