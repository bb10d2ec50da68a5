// base/shareable.hpp - memory of this process that others of this host may read where it lies: for
// vectors whose elements travel, parameters and updates. It is one memory file without a name.
// Pages are taken as they are needed. A process with its descriptor can read all of it. Seals
// forbid it to shrink the file (SIGBUS), and to map it for writing (kernels from 5.1 on). They also
// keep freed pages, which the next vectors use. Without such memory, vectors lie in ordinary memory
// and are copied on their way: nobody asked for it, the process has 32 bits, or no address space is
// left.
// Errors: none. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rubato {

// Vectors of this many bytes and more; smaller ones cost less to copy.
inline constexpr std::size_t kShareableBytesMin = 64 * 1024;

// From now on large vectors lie there. A process that is forked afterwards, without exec, has only
// ordinary memory for new ones. Any number of times.
void start_sharing();
// For reading, of the whole file; it stays open. -1: nothing is shared.
int shareable_descriptor();
// Where in the file these bytes are; nothing: they are elsewhere.
std::optional<std::uint64_t> shareable_offset(std::span<const std::byte> bytes);

void* allocate_shareable(std::size_t bytes);
void free_shareable(void* memory, std::size_t bytes) noexcept;

template <class T>
struct ShareableAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the standard's

  ShareableAllocator() = default;
  template <class U>
  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert
  ShareableAllocator(const ShareableAllocator<U>& /*other*/) {}

  T* allocate(std::size_t n) { return static_cast<T*>(allocate_shareable(n * sizeof(T))); }
  void deallocate(T* memory, std::size_t n) noexcept { free_shareable(memory, n * sizeof(T)); }
  bool operator==(const ShareableAllocator&) const = default;
};

using Floats = std::vector<float, ShareableAllocator<float>>;

}  // namespace rubato
