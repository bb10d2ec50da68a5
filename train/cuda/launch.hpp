// train/cuda/launch.hpp - the only functions that are compiled by nvcc. No header of the toolkit is
// needed here.
// Threads: those of train/cuda/gpu.hpp. The calling thread's current device is meant.
#pragma once

#include <cstddef>

#include "train/cuda/kernels.hpp"

struct CUstream_st;  // what the toolkit's cudaStream_t points at

namespace rubato::train::cuda {

// Queues kernel(i) for all i in [0, count), one thread each. Returns: null, or what the toolkit
// says of the failure.
const char* launch_kernel(CUstream_st* stream, std::size_t count, const Kernel& kernel);

// Null where this build has code for the device; else what the toolkit says of it.
const char* missing_code();

}  // namespace rubato::train::cuda
