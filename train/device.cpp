#include "train/device.hpp"

#include <fmt/format.h>

#include "base/check.hpp"
#include "base/log.hpp"
#include "train/cpu/cpu_device.hpp"
#include "train/cpu/cpu_info.hpp"
#include "train/cuda/cuda_device.hpp"
#include "train/cuda/gpu.hpp"
#include "train/reference_device.hpp"

namespace rubato::train {

void check_batch(const Batch& batch, const Shape& input, int batch_max) {
  RUBATO_CHECK(batch.size >= 1 && batch.size <= batch_max, "batch size outside 1..batch_max");
  const auto size = static_cast<std::size_t>(batch.size);
  RUBATO_CHECK(batch.answers().size() == size, "one label or target a sample");
  RUBATO_CHECK(batch.weights.empty() || batch.weights.size() == size, "one weight a sample");
  RUBATO_CHECK(batch.inputs.size() == size * static_cast<std::size_t>(input.count()),
               "inputs of another shape");
}

bool Device::keep(const Dataset& /*data*/) {
  return false;
}

std::optional<BatchResult> Device::step_early(const Batch& batch, float rate,
                                              const Arriving& arriving) {
  std::vector<float> parameters(parameter_count());
  if (!arriving(0, parameters)) return std::nullopt;
  load(parameters);
  return step(batch, rate);
}

Result<std::unique_ptr<Device>> make_device(std::string_view name, const DeviceOptions& options) {
  RUBATO_TRY(check_device(name, options.precision));
  if (const auto number = gpu_number(name)) return make_cuda_device(*number, options.precision);
  if (name == "reference") return std::make_unique<ReferenceDevice>();
  return std::make_unique<CpuDevice>(options);
}

void log_device(std::string_view device) {
  if (const auto number = gpu_number(device)) {
    const auto gpu = cuda::open_gpu(*number, cuda::Precision::Float32);
    if (gpu) log_info(fmt::format("{}: {}", device, (*gpu)->description()));
  }
  if (device != "cpu") return;
  log_info(describe_cpu());
  for (const auto& warning : cpu_warnings()) log_warning(warning);
}

}  // namespace rubato::train
