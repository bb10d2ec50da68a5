// train/device_limits.hpp - what a device can do at most, measured: `rubato bench` prints training
// steps beside it.
// Threads: the caller's, and only that one where the device computes on the host.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "base/time.hpp"
#include "train/cuda/precision.hpp"

namespace rubato::train {

struct DeviceLimits {
  double flops = 0;  // float32 operations a second in a large matrix product
  double copy = 0;   // bytes a second, read and written, in a large copy within its memory
  // Bytes a second between pinned memory of the host and the device. Empty: its memory is the
  // host's.
  std::optional<double> upload = {}, download = {};
};

// Each figure is the best of what `time` has room for, and of 3 runs at least. `device` and
// `precision`: as of make_device(), whose errors these are.
[[nodiscard]] Result<DeviceLimits> measure_limits(
    std::string_view device, Duration time, cuda::Precision precision = cuda::Precision::Float32);

}  // namespace rubato::train
