// train/step_plan.hpp - how a worker's next mini-batch is to be made; its core says, its trainer
// does. Pure data.
#pragma once

#include <cstdint>

namespace rubato::train {

struct StepPlan {
  std::uint32_t batch = 0;  // samples, at most device.batch_max(); 0: as configured
  double rate = 1;          // part of the learning rate
};

}  // namespace rubato::train
