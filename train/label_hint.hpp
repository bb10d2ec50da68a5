// train/label_hint.hpp - whether labels look like a quantity that somebody wants to predict, and
// not like names of classes. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rubato::train {

// `classes`: the labels that occur; `samples`: that have one. Returns: what to set if they are a
// quantity; empty: they look like names.
std::string quantity_hint(const std::vector<std::string>& classes, std::uint64_t samples);

}  // namespace rubato::train
