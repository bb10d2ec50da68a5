#include "train/device_limits.hpp"

#include "train/cpu/cpu_limits.hpp"
#include "train/cuda/cuda_limits.hpp"
#include "train/device.hpp"

namespace rubato::train {

Result<DeviceLimits> measure_limits(std::string_view device, Duration time) {
  RUBATO_TRY(make_device(device));
  if (!device.starts_with("cuda")) return cpu_limits(time);
  RUBATO_ASSIGN(const auto gpu, cuda::open_gpu(0, cuda::Precision::Float32));
  return cuda::gpu_limits(*gpu, time);
}

}  // namespace rubato::train
