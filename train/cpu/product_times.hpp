// train/cpu/product_times.hpp - which library multiplies a shape faster on this machine, by the
// clock: what a real worker goes by instead of the rule of train/cpu/gemm.hpp.
// Errors: none. Threads: the caller's.
#pragma once

#include <functional>
#include <map>

#include "base/time.hpp"
#include "train/cpu/gemm.hpp"

namespace rubato::train {

using ProductCalls = std::map<ProductShape, ProductCall>;

// How long the call takes by that library, once.
using ProductTimer = std::function<Duration(const ProductCall&, Library)>;

// Does it and reads the clock.
Duration time_product(const ProductCall& call, Library library);

// What measuring takes at most, but for the first run by each library and those under way.
inline constexpr Duration kProductsTimeMax = Duration::from_ms(100);

// For each shape the library of the rule, unless the other one is faster by a twentieth: the
// shortest of up to 50 runs each, in turns, after one that counts for nothing. Small products come
// first and leave the time that they do not need to the larger. One too large for its part of the
// time is left out: the rule is for it.
LibraryChoices faster_libraries(const ProductCalls& calls, const ProductTimer& timer);

}  // namespace rubato::train
