// tests/integration/helpers.hpp - what all integration tests share.
#pragma once

#include <string>

#include "base/time.hpp"

namespace rubato::integration {

// Far above what anything takes, sanitizers and busy cores included; reached when it is broken.
inline constexpr Duration kPatience = Duration::from_seconds(60);

inline bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace rubato::integration
