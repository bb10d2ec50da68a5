// base/json_fwd.hpp - the names of base/json.hpp, for headers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace rubato {

template <class T, class = void>
struct JsonSerializer;

using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, std::int64_t,
                                  std::uint64_t, double, std::allocator, JsonSerializer>;
// Its keys keep the order in which they are written.
using OrderedJson =
    nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, std::int64_t,
                         std::uint64_t, double, std::allocator, JsonSerializer>;

}  // namespace rubato
