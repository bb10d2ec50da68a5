#include "server/optimizer.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace rubato::server {

Optimizer::Optimizer(const OptimizerOptions& options, std::size_t parameters) : options_(options) {
  if (options.kind != OptimizerKind::Sgd) velocity_.assign(parameters, 0.0f);
}

float Optimizer::rate(std::size_t members) const {
  if (options_.global_rate) return static_cast<float>(*options_.global_rate);
  return 1.0f / static_cast<float>(std::max<std::size_t>(members, 1));
}

void Optimizer::apply(std::span<float> parameters, std::uint64_t offset,
                      std::span<const float> update, Scale scale) {
  RUBATO_CHECK(update.size() == parameters.size(), "an update for each parameter");
  float* w = parameters.data();
  const float* u = update.data();
  const std::size_t n = update.size();
  const auto [rate, weight] = scale;
  if (options_.kind == OptimizerKind::Sgd) {
    const float by = rate * weight;
    for (std::size_t i = 0; i < n; ++i) w[i] -= by * u[i];
    return;
  }
  RUBATO_CHECK(offset + n <= velocity_.size(), "update within the shard");
  float* v = velocity_.data() + offset;
  const auto beta = static_cast<float>(options_.momentum);
  if (options_.kind == OptimizerKind::Momentum) {
    for (std::size_t i = 0; i < n; ++i) {
      v[i] = beta * v[i] + weight * u[i];
      w[i] -= rate * v[i];
    }
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const float by = weight * u[i];
    v[i] = beta * v[i] + by;
    w[i] -= rate * (by + beta * v[i]);
  }
}

}  // namespace rubato::server
