// train/model/learning_rate.hpp - the local rate of each of a worker's steps: a warm-up, then a
// schedule. Sources: warm-up: Goyal et al. 2017, arXiv 1706.02677, Sec. 2.2. Cosine: Loshchilov,
// Hutter, ICLR 2017, eq. 5, without restarts. Letters: n steps since the warm-up, N decay_steps, d
// decay. Steps are the worker's own, counted from 0 since its process began. Pure. Threads: any.
#pragma once

#include <cstdint>

namespace rubato::train {

// At n = N the rate is d times `initial`, whichever it is.
enum class Schedule {
  Exponential,  // d^(n/N)
  Step,         // d^floor(n/N)
  Cosine,       // d + (1 - d)(1 + cos(pi n/N))/2 up to N, then d
};

struct LearningRate {
  double initial = 0.05;
  Schedule schedule = Schedule::Exponential;
  double decay = 1.0;         // d: above 0, for Cosine at least 0
  double decay_steps = 1000;  // N, above 0
  // Each of these first steps is longer than the one before by the same amount.
  std::uint64_t warmup_steps = 0;
  double at(std::uint64_t step) const;
};

}  // namespace rubato::train
