#include <cuda_runtime.h>

#include <variant>

#include "train/cuda/launch.hpp"

namespace rubato::train::cuda {
namespace {

constexpr unsigned kThreads = 256;  // of a block

template <class K>
__global__ void run(std::size_t count, K kernel) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) kernel(i);
}

const char* text_of(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char* launch_kernel(CUstream_st* stream, std::size_t count, const Kernel& kernel) {
  if (count == 0) return nullptr;
  return std::visit(
      [&](auto each) {
        const dim3 blocks(static_cast<unsigned>((count + kThreads - 1) / kThreads));
        void* arguments[] = {&count, &each};
        return text_of(
            cudaLaunchKernel(run<decltype(each)>, blocks, dim3(kThreads), arguments, 0, stream));
      },
      kernel);
}

const char* missing_code() {
  cudaFuncAttributes attributes;
  return text_of(cudaFuncGetAttributes(&attributes, run<std::variant_alternative_t<0, Kernel>>));
}

}  // namespace rubato::train::cuda
