#include "train/cuda/cuda_device.hpp"

#include "train/cuda/gpu.hpp"

namespace rubato::train {

Result<std::unique_ptr<Device>> make_cuda_device(int number, cuda::Precision precision) {
  RUBATO_ASSIGN(const auto gpu, cuda::open_gpu(number, precision));
  return fail(ErrorCode::Unsupported, "the CUDA device is not complete; use device = \"cpu\"");
}

}  // namespace rubato::train
