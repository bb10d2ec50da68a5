// sync/momentum.hpp - the implicit momentum of asynchronous commits, for diagnosis only.
// Source: Hu, Wang, Wu, AAAI 2020, Theorem 1, after Mitliagkas et al. 2016 (arXiv 1605.09774).
// mu = 1 - 1 / (1 + (1 - 1/m) sum_i rho_i), rho_i = Gamma / (dC_i v_i) taken as dimensionless.
// Pure. Threads: any.
#pragma once

#include <numeric>
#include <span>

#include "base/check.hpp"

namespace rubato::sync {

// rho: one entry per worker; m is rho.size() >= 1. Returns: in [0, 1).
inline double implicit_momentum(std::span<const double> rho) {
  RUBATO_CHECK(!rho.empty(), "at least one worker");
  const double m = static_cast<double>(rho.size());
  const double sum = std::accumulate(rho.begin(), rho.end(), 0.0);
  return 1.0 - 1.0 / (1.0 + (1.0 - 1.0 / m) * sum);
}

}  // namespace rubato::sync
