// base/rng.hpp - our own 64-bit generator and distributions, so that a seed gives the same numbers
// with every standard library. Source: xoshiro256** 1.0 and splitmix64, Blackman and Vigna 2018.
// Threads: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace rubato {

class Rng {
 public:
  explicit Rng(std::uint64_t seed);
  // An independent stream for one purpose: Rng(seed, kWorkerStream, 3) never depends on who else
  // draws. Same arguments, same stream.
  Rng(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

  std::uint64_t next();
  // Uniform in [0, 1).
  double uniform();
  // Uniform in [0, bound). Requires: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Standard normal (polar method).
  double normal();
  // Gamma with shape > 0 and scale 1 (Marsaglia and Tsang 2000).
  double gamma(double shape);

  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

// A random number from the operating system, never 0: incarnations of real processes.
std::uint64_t os_random();

}  // namespace rubato
