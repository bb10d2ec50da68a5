// base/kernel.hpp - RUBATO_KERNEL before a function: nvcc compiles it for the host and for the GPU.
#pragma once

#ifdef __CUDACC__
#define RUBATO_KERNEL __host__ __device__
#else
#define RUBATO_KERNEL
#endif
