// Linked instead of train/cuda/no_gpu.cpp where the CUDA toolkit is: loads the module.
#include "train/cuda/cuda_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/check.hpp"

namespace rubato::train::cuda {

Result<std::unique_ptr<Gpu>> open_gpu(int number, Precision precision) {
  // By its name alone: the program's run path says where it is. Loaded once, and kept.
  void* const module = ::dlopen(RUBATO_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (!module)
    return fail(ErrorCode::Unsupported,
                fmt::format("the CUDA device cannot be loaded ({}); install cuBLAS and cuDNN of "
                            "the toolkit that this build was made with, or use device = \"cpu\"",
                            ::dlerror()));
  const auto open = reinterpret_cast<OpenGpu>(::dlsym(module, kOpenGpu));
  RUBATO_CHECK(open, "the CUDA module is another one");
  Result<std::unique_ptr<Gpu>> gpu;
  open(number, precision, gpu);
  return gpu;
}

}  // namespace rubato::train::cuda
