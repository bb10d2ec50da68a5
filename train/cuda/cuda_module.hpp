// train/cuda/cuda_module.hpp - what the loadable module with the CUDA device offers. The module is
// apart from the program so that nothing loads the toolkit's libraries before a GPU is asked for,
// and nobody else needs them (docs/decisions/0011-cuda-in-a-module.md).
#pragma once

#include <memory>

#include "train/cuda/gpu.hpp"

namespace rubato::train::cuda {

// The name by which the program finds it, as the linker sees it.
inline constexpr const char* kOpenGpu = "rubato_open_gpu";
// gpu <- as open_gpu().
using OpenGpu = void (*)(int number, Precision precision, Result<std::unique_ptr<Gpu>>& gpu);

}  // namespace rubato::train::cuda
