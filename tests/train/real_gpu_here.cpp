#include <doctest/doctest.h>

#include <string>

#include "tests/train/gpu_here.hpp"

namespace rubato::train::cuda {

std::unique_ptr<Gpu> gpu_here(Precision precision) {
  auto gpu = open_gpu(0, precision);
  if (gpu) return std::move(*gpu);
  const std::string why = gpu.error().message;
  MESSAGE("skipped: " << why);
  return nullptr;
}

}  // namespace rubato::train::cuda
