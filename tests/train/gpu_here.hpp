// tests/train/gpu_here.hpp - the GPU that gpu_test.cpp checks. Two files define it, one for each
// program: real_gpu_here.cpp for test_gpu, host_gpu_here.cpp for test_host_gpu.
#pragma once

#include <memory>

#include "train/cuda/gpu.hpp"

namespace rubato::train::cuda {

// Null where there is none that can do it, which a message of the running case says.
std::unique_ptr<Gpu> gpu_here(Precision precision = Precision::Float32);

}  // namespace rubato::train::cuda
