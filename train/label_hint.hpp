// train/label_hint.hpp - what a user should know of labels: that they look like a quantity to
// predict, and not like names of classes; that classes are spelled alike.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rubato::train {

// `classes`: the labels that occur; `samples`: that have one. Returns: what to set if they are a
// quantity; empty: they look like names.
std::string quantity_hint(const std::vector<std::string>& classes, std::uint64_t samples);

// Classes that are one number in several spellings, as "1" and "1.0"; empty: there are none.
std::string spelling_hint(const std::vector<std::string>& classes);

// Those of the two that have something to say.
std::vector<std::string> label_hints(const std::vector<std::string>& classes,
                                     std::uint64_t samples);

}  // namespace rubato::train
