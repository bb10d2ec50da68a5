// Linked instead of train/cuda/cuda_module.cpp in builds without the CUDA toolkit.
#include "train/cuda/gpu.hpp"

namespace rubato::train::cuda {

Result<std::unique_ptr<Gpu>> open_gpu(int /*number*/, Precision /*precision*/) {
  return fail(
      ErrorCode::Unsupported,
      "this build of rubato has no CUDA device; use device = \"cpu\", or build it where the "
      "CUDA toolkit and cuDNN are (docs/gpu.md)");
}

}  // namespace rubato::train::cuda
