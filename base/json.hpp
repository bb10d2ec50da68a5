// base/json.hpp - JSON by nlohmann::json, but for one rule: a whole number is read only from a
// number that is one and has room in its type. The library converts any number to any type, and
// what a file of somebody else claims may have no room there, which is undefined behaviour.
// Errors: nlohmann::json's exceptions, for that as for other wrong types; parsing throws more than
// parse_error: a number may be too large for a double.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "base/json_fwd.hpp"

namespace rubato {

template <class T, class>
struct JsonSerializer : nlohmann::adl_serializer<T> {};

template <class T>
struct JsonSerializer<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
    : nlohmann::adl_serializer<T> {
  template <class AnyJson>
  static void from_json(const AnyJson& json, T& value) {
    constexpr double kWholeMax = 0x1p53;  // a double has each whole number up to it
    if (const auto* positive = json.template get_ptr<const std::uint64_t*>()) {
      if (std::in_range<T>(*positive)) {
        value = static_cast<T>(*positive);
        return;
      }
    } else if (const auto* whole = json.template get_ptr<const std::int64_t*>()) {
      if (std::in_range<T>(*whole)) {
        value = static_cast<T>(*whole);
        return;
      }
    } else if (const auto* real = json.template get_ptr<const double*>()) {
      if (std::abs(*real) <= kWholeMax && std::trunc(*real) == *real &&
          std::in_range<T>(static_cast<std::int64_t>(*real))) {
        value = static_cast<T>(*real);
        return;
      }
    }
    throw AnyJson::type_error::create(302, "type must be a whole number in range", &json);
  }
};

// JSON as text. Bytes of its texts that are no UTF-8 become U+FFFD. `indent`: columns for each
// depth; -1: one line.
template <class AnyJson>
std::string json_text(const AnyJson& json, int indent = -1) {
  return json.dump(indent, ' ', false, AnyJson::error_handler_t::replace);
}

}  // namespace rubato
