// worker/cuda/cuda_device.hpp - the CUDA device, or its refusal where the toolkit is absent.
#pragma once

#include <memory>

#include "worker/device.hpp"

namespace rubato::worker {

// Errors: Unsupported, with the remedy.
[[nodiscard]] Result<std::unique_ptr<Device>> make_cuda_device();

}  // namespace rubato::worker
