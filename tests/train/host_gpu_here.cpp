#include <doctest/doctest.h>

#include "tests/train/gpu_here.hpp"
#include "tests/train/host_gpu.hpp"

namespace rubato::train::cuda {

std::unique_ptr<Gpu> gpu_here(Precision precision) {
  if (precision == Precision::Float32) return std::make_unique<HostGpu>(HostGpuOptions{.seed = 5});
  MESSAGE("skipped: plain loops compute in float32 only");
  return nullptr;
}

}  // namespace rubato::train::cuda
