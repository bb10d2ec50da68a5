// tests/allocations.hpp - operator new of this program, counted. It defines the operators: include
// it in one file of a test program. Those of a library that is told by its caller's address can be
// counted apart. Threads: any.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace rubato::tests {

inline std::atomic<std::size_t> allocations = 0;
inline std::atomic<std::size_t> foreign_allocations = 0;
// Returns: whether the code at this address is not ours. Null: all is ours.
inline std::atomic<bool (*)(const void* caller)> is_foreign = nullptr;

inline void* counted(std::size_t bytes, const void* caller) {
  const auto foreign = is_foreign.load();
  ++(foreign && foreign(caller) ? foreign_allocations : allocations);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace rubato::tests

// They may not be inline, and one file includes them.
// NOLINTBEGIN(misc-definitions-in-headers)
void* operator new(std::size_t bytes) {
  return rubato::tests::counted(bytes, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
// NOLINTEND(misc-definitions-in-headers)
