// train/cuda/must.hpp - for calls that can fail only where a GPU fails at work, or where it has no
// memory left for what came up later. They end the process with one line and exit code 1.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "base/result.hpp"

namespace rubato::train::cuda {

// Returns: the value.
template <class T>
T must(Result<T> result) {
  if (!result) [[unlikely]] {
    fmt::print(stderr, "rubato: {}\n", result.error().message);
    std::fflush(stderr);
    std::_Exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace rubato::train::cuda
