// train/model/device_names.hpp - the names by which a cluster file chooses a device. Pure: no
// device is made or asked for.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "train/cuda/precision.hpp"

namespace rubato::train {

// "cuda" is the GPU 0, "cuda:2" the GPU 2. Nothing: the name means no GPU.
std::optional<int> gpu_number(std::string_view name);

// BadInput for a name that no device has, and for a precision that this device lacks.
[[nodiscard]] Result<void> check_device(std::string_view name,
                                        cuda::Precision precision = cuda::Precision::Float32);

}  // namespace rubato::train
