#include "train/loss.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.hpp"

namespace rubato::train {
namespace {

// One sample: scores and gradient are [classes]. Returns: the loss.
template <class Real>
Real softmax_cross_entropy(const Real* scores, int label, int classes, Real scale, Real* gradient) {
  const Real largest = *std::max_element(scores, scores + classes);
  Real sum = 0;
  for (int j = 0; j < classes; ++j) {
    const Real e = std::exp(scores[j] - largest);
    if (gradient) gradient[j] = e;
    sum += e;
  }
  if (gradient) {
    for (int j = 0; j < classes; ++j) gradient[j] *= scale / sum;
    gradient[label] -= scale;
  }
  return std::log(sum) + largest - scores[label];
}

template <class Real>
Real multi_class_hinge(const Real* scores, int label, int classes, Real scale, Real* gradient) {
  int rival = label == 0 ? 1 : 0;
  for (int j = rival + 1; j < classes; ++j) {
    if (j != label && scores[j] > scores[rival]) rival = j;
  }
  const Real margin_loss = 1 + scores[rival] - scores[label];
  const bool inside = !(margin_loss <= 0);  // NaN counts as a loss, so that it is seen
  if (gradient) {
    std::fill_n(gradient, classes, Real(0));
    if (inside) {
      gradient[rival] = scale;
      gradient[label] = -scale;
    }
  }
  return inside ? margin_loss : Real(0);
}

template <class Real>
Real weight_of(std::span<const float> weights, std::size_t at) {
  return weights.empty() ? Real(1) : static_cast<Real>(weights[at]);
}

// gradient [size]
template <class Real>
BatchResult squared_errors(const Real* scores, const Answers& answers, Real* gradient) {
  const std::span<const float> targets = answers.targets;
  BatchResult result{.samples = static_cast<int>(targets.size())};
  const Real scale = Real(1) / static_cast<Real>(targets.size());
  for (std::size_t b = 0; b < targets.size(); ++b) {
    const Real weight = weight_of<Real>(answers.weights, b);
    const Real error = scores[b] - static_cast<Real>(targets[b]);
    if (gradient) gradient[b] = 2 * (scale * weight) * error;
    result.loss_sum += weight * (error * error);
  }
  return result;
}

}  // namespace

template <class Real>
BatchResult loss_and_gradient(Loss loss, const Real* scores, const Answers& answers, int size,
                              int classes, Real* gradient, std::span<const float> class_weights) {
  RUBATO_CHECK(answers.size() == static_cast<std::size_t>(size), "one answer a sample");
  RUBATO_CHECK(answers.weights.empty() || answers.weights.size() == answers.size(),
               "one weight a sample");
  if (loss == Loss::MeanSquaredError) {
    RUBATO_CHECK(classes == 1 && answers.labels.empty(), "regression has one output and targets");
    return squared_errors(scores, answers, gradient);
  }
  RUBATO_CHECK(class_weights.empty() || class_weights.size() == static_cast<std::size_t>(classes),
               "one weight a class");
  const std::span<const std::int32_t> labels = answers.labels;
  RUBATO_CHECK(!labels.empty(), "classes are learned from labels");
  BatchResult result{.samples = size};
  const Real scale = Real(1) / static_cast<Real>(size);
  for (int b = 0; b < size; ++b) {
    const std::int32_t label = labels[static_cast<std::size_t>(b)];
    RUBATO_CHECK(label >= 0 && label < classes, "label outside the model's classes");
    const Real* row = scores + static_cast<std::ptrdiff_t>(b) * classes;
    Real* row_gradient = gradient ? gradient + static_cast<std::ptrdiff_t>(b) * classes : nullptr;
    const Real weight = weight_of<Real>(class_weights, static_cast<std::size_t>(label)) *
                        weight_of<Real>(answers.weights, static_cast<std::size_t>(b));
    result.loss_sum +=
        weight * (loss == Loss::SoftmaxCrossEntropy
                      ? softmax_cross_entropy(row, label, classes, scale * weight, row_gradient)
                      : multi_class_hinge(row, label, classes, scale * weight, row_gradient));
    if (std::max_element(row, row + classes) - row == label) ++result.correct;
  }
  return result;
}

template BatchResult loss_and_gradient<float>(Loss, const float*, const Answers&, int, int, float*,
                                              std::span<const float>);
template BatchResult loss_and_gradient<double>(Loss, const double*, const Answers&, int, int,
                                               double*, std::span<const float>);

}  // namespace rubato::train
