#include "train/model/device_names.hpp"

#include <fmt/format.h>

#include "base/numbers.hpp"

namespace rubato::train {

std::optional<int> gpu_number(std::string_view name) {
  constexpr std::string_view kCuda = "cuda";
  if (name == kCuda) return 0;
  if (!name.starts_with(kCuda) || name[kCuda.size()] != ':') return std::nullopt;
  const auto number = parse_number<int>(name.substr(kCuda.size() + 1));
  return number && *number >= 0 ? number : std::nullopt;
}

Result<void> check_device(std::string_view name, cuda::Precision precision) {
  if (gpu_number(name)) return {};
  if (name != "reference" && name != "cpu")
    return fail(
        ErrorCode::BadInput,
        fmt::format("unknown device \"{}\"; use cpu, reference, cuda or cuda:NUMBER", name));
  if (precision == cuda::Precision::Float32) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("device \"{}\" computes in float32 only; other precisions are for the "
                          "device cuda",
                          name));
}

}  // namespace rubato::train
