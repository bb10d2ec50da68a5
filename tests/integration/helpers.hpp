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

// How often.
inline std::size_t count(const std::string& text, const std::string& words) {
  std::size_t found = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++found;
  return found;
}

}  // namespace rubato::integration
