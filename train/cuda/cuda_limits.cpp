#include "train/cuda/cuda_limits.hpp"

#include <algorithm>
#include <string>

#include "train/best_time.hpp"

namespace rubato::train::cuda {
namespace {

Result<DeviceLimits> measured(Gpu& gpu, Duration time, const LimitSizes& sizes) {
  const auto side = static_cast<std::size_t>(sizes.side);
  const std::size_t matrix = side * side * sizeof(float);
  DeviceLimits limits;
  {
    RUBATO_ASSIGN(const Memory a, gpu.allocate(matrix));
    RUBATO_ASSIGN(const Memory b, gpu.allocate(matrix));
    RUBATO_ASSIGN(const Memory c, gpu.allocate(matrix));
    const Product product{.m = sizes.side,
                          .n = sizes.side,
                          .k = sizes.side,
                          .a = a.as<float>(),
                          .lda = sizes.side,
                          .b = b.as<float>(),
                          .ldb = sizes.side,
                          .c = c.as<float>(),
                          .ldc = sizes.side};
    const double seconds = best_seconds(time, [&] {
      gpu.multiply(product);
      gpu.wait(Stream::Compute);
    });
    limits.flops = 2.0 * sizes.side * sizes.side * sizes.side / seconds;
  }
  const auto copy_seconds = [&](Stream stream, const Memory& to, const Memory& from,
                                std::size_t bytes) {
    return best_seconds(time, [&] {
      gpu.copy(stream, to.as<std::byte>(), from.as<std::byte>(), bytes);
      gpu.wait(stream);
    });
  };
  RUBATO_ASSIGN(const Memory here, gpu.allocate(std::max(sizes.copied, sizes.transferred)));
  {
    RUBATO_ASSIGN(const Memory there, gpu.allocate(sizes.copied));
    const double seconds = copy_seconds(Stream::Compute, there, here, sizes.copied);
    limits.copy = 2.0 * static_cast<double>(sizes.copied) / seconds;
  }
  RUBATO_ASSIGN(const Memory host, gpu.allocate_pinned(sizes.transferred));
  const auto bytes = static_cast<double>(sizes.transferred);
  limits.upload = bytes / copy_seconds(Stream::Upload, here, host, sizes.transferred);
  limits.download = bytes / copy_seconds(Stream::Download, host, here, sizes.transferred);
  return limits;
}

}  // namespace

Result<DeviceLimits> gpu_limits(Gpu& gpu, Duration time, const LimitSizes& sizes) {
  auto limits = measured(gpu, time, sizes);
  if (!limits) return fail(limits.error().code, "the limits of the GPU: " + limits.error().message);
  return limits;
}

}  // namespace rubato::train::cuda
