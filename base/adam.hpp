// base/adam.hpp - one step of Adam for one parameter: the loop body that server optimizers and
// worker optimizers share.
// Source: Kingma, Ba, ICLR 2015, Alg. 1. Letters: g gradient, m its mean, v the mean of its square.
// A file that uses it is built with -ffp-contract=off, so that bits do not depend on the processor,
// and with -fno-math-errno, so that the compiler vectorises the root.
// Pure. Threads: any.
#pragma once

#include <cmath>
#include <cstdint>

namespace rubato {

class AdamStep {
 public:
  // Of step `number`, from 1.
  AdamStep(double beta1, double beta2, double epsilon, float rate, std::uint64_t number)
      : rate_(rate),
        beta1_(static_cast<float>(beta1)),
        beta2_(static_cast<float>(beta2)),
        unbias1_(static_cast<float>(1 / (1 - std::pow(beta1, static_cast<double>(number))))),
        unbias2_(static_cast<float>(1 / (1 - std::pow(beta2, static_cast<double>(number))))),
        epsilon_(static_cast<float>(epsilon)) {}

  // m and v take in g. Returns: what to subtract from the parameter.
  float move(float g, float& m, float& v) const {
    m = beta1_ * m + (1 - beta1_) * g;
    v = beta2_ * v + (1 - beta2_) * g * g;
    return rate_ * (unbias1_ * m) / (std::sqrt(unbias2_ * v) + epsilon_);
  }

 private:
  float rate_, beta1_, beta2_, unbias1_, unbias2_, epsilon_;
};

}  // namespace rubato
