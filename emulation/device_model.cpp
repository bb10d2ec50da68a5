#include "emulation/device_model.hpp"

#include <cmath>

namespace rubato::emulation {

Lognormal::Lognormal(double deviation) {
  if (deviation <= 0) return;
  const double variance = std::log(1 + deviation * deviation);
  scale_ = std::sqrt(variance);
  shift_ = variance / 2;
}

double Lognormal::factor(Rng& rng) const {
  if (scale_ == 0) return 1;
  return std::exp(scale_ * rng.normal() - shift_);
}

double lognormal_factor(Rng& rng, double deviation) {
  return Lognormal(deviation).factor(rng);
}

}  // namespace rubato::emulation
