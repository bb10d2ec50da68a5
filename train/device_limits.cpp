#include "train/device_limits.hpp"

#include "train/cpu/cpu_limits.hpp"
#include "train/cuda/cuda_limits.hpp"
#include "train/device.hpp"

namespace rubato::train {

Result<DeviceLimits> measure_limits(std::string_view device, Duration time,
                                    cuda::Precision precision) {
  RUBATO_TRY(check_device(device, precision));
  const auto number = gpu_number(device);
  if (!number) return cpu_limits(time);
  RUBATO_ASSIGN(const auto gpu, cuda::open_gpu(*number, precision));
  return cuda::gpu_limits(*gpu, time);
}

}  // namespace rubato::train
