// Linked instead of train/cuda/cuda_gpu.* where the toolkit is absent.
#include "train/cuda/gpu.hpp"

namespace rubato::train::cuda {

Result<std::unique_ptr<Gpu>> open_gpu(int /*number*/, Precision /*precision*/) {
  return fail(ErrorCode::Unsupported, "this build has no CUDA device; use device = \"cpu\"");
}

}  // namespace rubato::train::cuda
