// base/half.hpp - a number of IEEE 754 binary16, as files hold it. Pure.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace rubato {

inline float from_half(std::uint16_t half) {
  const float sign = (half & 0x8000U) != 0 ? -1.0f : 1.0f;
  const int exponent = (half >> 10U) & 0x1F;
  const auto fraction = static_cast<float>(half & 0x3FFU) / 1024.0f;
  if (exponent == 31)
    return std::bit_cast<float>((half & 0x8000U) << 16U | 0x7F800000U |
                                static_cast<std::uint32_t>(half & 0x3FFU) << 13U);
  if (exponent == 0) return sign * std::ldexp(fraction, -14);
  return sign * std::ldexp(1.0f + fraction, exponent - 15);
}

}  // namespace rubato
