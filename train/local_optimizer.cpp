#include "train/local_optimizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/adam.hpp"
#include "base/check.hpp"
#include "base/multiversion.hpp"

namespace rubato::train {
namespace {

// Of one step.
struct Scale {
  float rate;   // eta'
  float clip;   // of the gradient
  float decay;  // lambda
};

// As many sums as the widest vector has lanes, in the same order on every processor.
RUBATO_MULTIVERSION double sum_of_squares(const float* g, std::size_t n) {
  constexpr std::size_t kLanes = 16;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = g[i + lane];
      sums[lane] += value * value;
    }
  double sum = 0;
  for (; i < n; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  for (const double lane : sums) sum += lane;
  return sum;
}

RUBATO_MULTIVERSION void turn_sgd(float* g, const float* w, std::size_t n, Scale scale) {
  const auto [rate, clip, decay] = scale;
  for (std::size_t i = 0; i < n; ++i) g[i] = rate * (clip * g[i] + decay * w[i]);
}

RUBATO_MULTIVERSION void turn_momentum(float* g, float* v, const float* w, std::size_t n,
                                       float beta, Scale scale) {
  const auto [rate, clip, decay] = scale;
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = beta * v[i] + (clip * g[i] + decay * w[i]);
    g[i] = rate * v[i];
  }
}

RUBATO_MULTIVERSION void turn_adamw(float* g, float* mean, float* square, const float* w,
                                    std::size_t n, const AdamStep& step, Scale scale) {
  const float decay = scale.rate * scale.decay;
  const float clip = scale.clip;
  for (std::size_t i = 0; i < n; ++i)
    g[i] = step.move(clip * g[i], mean[i], square[i]) + decay * w[i];
}

}  // namespace

LocalOptimizer::LocalOptimizer(const LocalOptimizerOptions& options, std::size_t parameters)
    : options_(options),
      plain_(options.kind == LocalOptimizerKind::Sgd && options.weight_decay == 0 &&
             options.clip_norm == 0) {
  if (options.kind != LocalOptimizerKind::Sgd) velocity_.assign(parameters, 0.0f);
  if (options.kind == LocalOptimizerKind::AdamW) square_.assign(parameters, 0.0f);
}

void LocalOptimizer::turn(std::span<float> gradient, std::span<const float> weights, float rate) {
  const std::size_t n = gradient.size();
  RUBATO_CHECK(weights.size() == n, "a gradient for each parameter");
  RUBATO_CHECK(options_.kind == LocalOptimizerKind::Sgd || velocity_.size() == n,
               "the moments of another model");
  ++steps_;
  double clip = 1;
  if (options_.clip_norm > 0) {
    const double norm = std::sqrt(sum_of_squares(gradient.data(), n));
    clip = options_.clip_norm / std::max(norm, options_.clip_norm);
  }
  const Scale scale{.rate = rate,
                    .clip = static_cast<float>(clip),
                    .decay = static_cast<float>(options_.weight_decay)};
  float* g = gradient.data();
  const float* w = weights.data();
  switch (options_.kind) {
    case LocalOptimizerKind::Sgd:
      turn_sgd(g, w, n, scale);
      return;
    case LocalOptimizerKind::Momentum:
      turn_momentum(g, velocity_.data(), w, n, static_cast<float>(options_.momentum), scale);
      return;
    case LocalOptimizerKind::AdamW:
      turn_adamw(g, velocity_.data(), square_.data(), w, n,
                 AdamStep(options_.beta1, options_.beta2, options_.epsilon, rate, steps_), scale);
      return;
  }
}

}  // namespace rubato::train
