// Linked instead of the CUDA device where the toolkit is absent.
#include "train/cuda/cuda_device.hpp"

namespace rubato::train {

Result<std::unique_ptr<Device>> make_cuda_device() {
  return fail(ErrorCode::Unsupported, "this build has no CUDA device; use device = \"cpu\"");
}

}  // namespace rubato::train
