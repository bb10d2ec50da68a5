#include "train/model/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rubato::train {

double LearningRate::at(std::uint64_t step) const {
  if (step < warmup_steps)
    return initial * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
  const double part = static_cast<double>(step - warmup_steps) / decay_steps;
  switch (schedule) {
    case Schedule::Exponential:
      return initial * std::pow(decay, part);
    case Schedule::Step:
      return initial * std::pow(decay, std::floor(part));
    case Schedule::Cosine:
      return initial *
             (decay + (1 - decay) * (1 + std::cos(std::numbers::pi * std::min(part, 1.0))) / 2);
  }
  return initial;
}

}  // namespace rubato::train
