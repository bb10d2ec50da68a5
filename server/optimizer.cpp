#include "server/optimizer.hpp"

#include <algorithm>
#include <utility>

#include "base/adam.hpp"
#include "base/check.hpp"
#include "base/multiversion.hpp"

namespace rubato::server {
namespace {

constexpr double kAdamRate = 0.001;

RUBATO_MULTIVERSION void apply_sgd(float* w, const float* u, std::size_t n,
                                   const Optimizer::Scale& scale) {
  const float by = scale.rate * scale.weight;
  for (std::size_t i = 0; i < n; ++i) w[i] -= by * u[i];
}

RUBATO_MULTIVERSION void apply_momentum(float* w, float* v, const float* u, std::size_t n,
                                        float beta, const Optimizer::Scale& scale) {
  const float rate = scale.rate, weight = scale.weight;
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = beta * v[i] + weight * u[i];
    w[i] -= rate * v[i];
  }
}

RUBATO_MULTIVERSION void apply_nesterov(float* w, float* v, const float* u, std::size_t n,
                                        float beta, const Optimizer::Scale& scale) {
  const float rate = scale.rate, weight = scale.weight;
  for (std::size_t i = 0; i < n; ++i) {
    const float g = weight * u[i];
    v[i] = beta * v[i] + g;
    w[i] -= rate * (g + beta * v[i]);
  }
}

RUBATO_MULTIVERSION void apply_delayed_nesterov(float* w, float* v, float* sum, const float* u,
                                                std::size_t n, const OptimizerOptions& options,
                                                const Optimizer::Scale& scale) {
  const float rate = scale.rate, weight = scale.weight;
  const std::uint64_t number = scale.number, delay = scale.delay;
  const auto beta = static_cast<float>(options.momentum);
  const double c = options.activation;
  if (number % delay != 0) {
    const auto between = static_cast<float>(c * options.momentum);
    for (std::size_t i = 0; i < n; ++i) {
      const float g = weight * u[i];
      sum[i] += g;
      w[i] -= rate * (between * v[i] + g);
    }
    return;
  }
  const auto at_last =
      static_cast<float>((1 - c * static_cast<double>(delay) + c) * options.momentum);
  for (std::size_t i = 0; i < n; ++i) {
    const float g = weight * u[i];
    v[i] = beta * v[i] + (sum[i] + g);
    sum[i] = 0;
    w[i] -= rate * (at_last * v[i] + g);
  }
}

RUBATO_MULTIVERSION void apply_adam(float* w, float* mean, float* square, const float* u,
                                    std::size_t n, const OptimizerOptions& options,
                                    const Optimizer::Scale& scale) {
  const AdamStep step(options.momentum, options.second_momentum, options.epsilon, scale.rate,
                      scale.number);
  for (std::size_t i = 0; i < n; ++i) w[i] -= step.move(scale.weight * u[i], mean[i], square[i]);
}

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, std::size_t parameters) : options_(options) {
  const OptimizerKind kind = kind_of(options);
  if (kind != OptimizerKind::Sgd) state_.velocity.assign(parameters, 0.0f);
  if (kind == OptimizerKind::DelayedNesterov || kind == OptimizerKind::Adam)
    state_.second.assign(parameters, 0.0f);
}

Optimizer::Scale Optimizer::scale(std::size_t members, double weight, std::uint64_t number) const {
  const std::size_t m = std::max<std::size_t>(members, 1);
  Scale scale{.rate = 1.0f / static_cast<float>(m),
              .weight = static_cast<float>(weight),
              .number = number,
              .delay = options_.delay ? static_cast<std::uint64_t>(*options_.delay) : m};
  if (options_.global_rate) {
    scale.rate = static_cast<float>(*options_.global_rate);
  } else if (options_.kind == OptimizerKind::Adam) {
    scale.rate = static_cast<float>(kAdamRate);
  }
  return scale;
}

void Optimizer::set_state(const State& state) {
  RUBATO_CHECK(state.velocity.size() == state_.velocity.size() &&
                   state.second.size() == state_.second.size(),
               "the state of another optimizer");
  state_ = state;
}

void Optimizer::apply(std::span<float> parameters, std::uint64_t offset,
                      std::span<const float> update, const Scale& scale) {
  RUBATO_CHECK(update.size() == parameters.size(), "an update for each parameter");
  const std::size_t n = update.size();
  float* w = parameters.data();
  const float* u = update.data();
  if (kind_of(options_) == OptimizerKind::Sgd) {
    apply_sgd(w, u, n, scale);
    return;
  }
  RUBATO_CHECK(offset + n <= state_.velocity.size(), "update within the shard");
  float* v = state_.velocity.data() + offset;
  const auto beta = static_cast<float>(options_.momentum);
  switch (kind_of(options_)) {
    case OptimizerKind::Sgd:
      return;
    case OptimizerKind::Momentum:
      apply_momentum(w, v, u, n, beta, scale);
      return;
    case OptimizerKind::Nesterov:
      apply_nesterov(w, v, u, n, beta, scale);
      return;
    case OptimizerKind::DelayedNesterov:
      apply_delayed_nesterov(w, v, state_.second.data() + offset, u, n, options_, scale);
      return;
    case OptimizerKind::Adam:
      apply_adam(w, v, state_.second.data() + offset, u, n, options_, scale);
      return;
  }
}

}  // namespace rubato::server
