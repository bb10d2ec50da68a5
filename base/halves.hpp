// base/halves.hpp - a pass over memory by two threads at the same time. One core alone does not use
// all of a memory's bandwidth. Errors: none. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace rubato {

// A pass over this many elements takes longer than to start a thread.
inline constexpr std::size_t kHalvedMin = std::size_t{1} << 20;

// Calls pass(begin, count) for parts that are all of `count` elements: for two halves at the same
// time, or for all at once where that would not pay. `pass` throws nothing. Returns: what the calls
// return, or-ed.
std::uint32_t in_halves(std::size_t count,
                        const std::function<std::uint32_t(std::size_t, std::size_t)>& pass);

}  // namespace rubato
