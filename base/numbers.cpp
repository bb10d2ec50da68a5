#include "base/numbers.hpp"

#include <bit>
#include <cstdint>

#include "base/multiversion.hpp"

namespace rubato {
namespace {

RUBATO_MULTIVERSION bool finite(const float* values, std::size_t count) {
  constexpr std::uint32_t kExponent = 0x7f800000u;  // all ones in NaN and infinity
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i)
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(values[i]) & kExponent) ==
                                      kExponent);
  return bad == 0;
}

}  // namespace

bool all_finite(std::span<const float> values) {
  return finite(values.data(), values.size());
}

}  // namespace rubato
