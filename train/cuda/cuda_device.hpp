// train/cuda/cuda_device.hpp - the CUDA device.
#pragma once

#include <memory>

#include "train/device.hpp"

namespace rubato::train {

// Errors: Unsupported, with the remedy.
[[nodiscard]] Result<std::unique_ptr<Device>> make_cuda_device();

}  // namespace rubato::train
