// train/cuda/cuda_device.hpp - the CUDA device.
#pragma once

#include <memory>

#include "train/cuda/precision.hpp"
#include "train/device.hpp"

namespace rubato::train {

// On the GPU of this number, from 0. Errors: Unsupported, with the remedy.
[[nodiscard]] Result<std::unique_ptr<Device>> make_cuda_device(int number,
                                                               cuda::Precision precision);

}  // namespace rubato::train
