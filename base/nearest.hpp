// base/nearest.hpp - "did you mean ...?": the name a user most likely meant.
// Pure. Distance: optimal string alignment (insert, delete, replace, swap neighbours), any case.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rubato {

// Returns: the candidate nearest to `word`, or nothing where none is close enough to be a slip of
// the keys (at most a third of the letters, at least one). Ties go to the first.
std::optional<std::string> nearest_name(std::string_view word,
                                        std::span<const std::string> candidates);

// The end of an error message: "; did you mean x?", else "; valid: a, b, c", in the given order.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

}  // namespace rubato
