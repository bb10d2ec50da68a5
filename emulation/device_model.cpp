#include "emulation/device_model.hpp"

#include <cmath>

namespace rubato::emulation {

double lognormal_factor(Rng& rng, double deviation) {
  if (deviation <= 0) return 1;
  const double variance = std::log(1 + deviation * deviation);
  return std::exp(std::sqrt(variance) * rng.normal() - variance / 2);
}

}  // namespace rubato::emulation
