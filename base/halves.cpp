#include "base/halves.hpp"

#include <system_error>
#include <thread>

namespace rubato {

std::uint32_t in_halves(std::size_t count,
                        const std::function<std::uint32_t(std::size_t, std::size_t)>& pass) {
  if (count < kHalvedMin || std::thread::hardware_concurrency() < 2) return pass(0, count);
  const std::size_t half = count / 2;
  std::uint32_t of_second = 0;
  std::jthread second;
  try {
    second = std::jthread([&] { of_second = pass(half, count - half); });
  } catch (const std::system_error&) {  // no more threads
    return pass(0, count);
  }
  const std::uint32_t of_first = pass(0, half);
  second.join();
  return of_first | of_second;
}

}  // namespace rubato
