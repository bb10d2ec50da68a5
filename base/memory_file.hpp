// base/memory_file.hpp - memory in a sealed file without a name, which other processes of this host
// may map too. The kernel frees it when the last process is gone; nothing is left in a file system.
// Errors: Io with the call that failed. Threads: Descriptor and Mapping are values of one owner.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "base/result.hpp"

namespace rubato {

// An Io error: the call and what errno says.
tl::unexpected<Error> system_error(const char* call);

// Owns one file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Memory of a sealed file.
class Mapping {
 public:
  // Requires: mapped by mmap, and with it whole_pages() of bytes.
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

// A multiple of the pages of any kernel.
constexpr std::size_t whole_pages(std::size_t bytes) {
  constexpr std::size_t kPage = 64 * 1024;
  return (bytes + kPage - 1) / kPage * kPage;
}
// Zeroed memory of `bytes`, sealed: nobody can shrink it under a reader (SIGBUS) or change that.
[[nodiscard]] Result<Descriptor> make_memory_file(std::size_t bytes);
// A memory file that others only read: after this mapping nobody can make another one to
// write to it, or write to its file. On kernels before 5.1 a process of the same user still can.
struct LentMemory {
  Descriptor file;
  std::shared_ptr<Mapping> mapping;
};
[[nodiscard]] Result<LentMemory> make_lent_memory(std::size_t bytes);
// Refuses what is not sealed memory of ordinary pages, of exactly this size.
[[nodiscard]] Result<std::shared_ptr<Mapping>> map_memory_file(const Descriptor& fd,
                                                               std::size_t bytes);
// All of it, whatever its size, for reading only: who writes there is ended by the kernel.
[[nodiscard]] Result<std::shared_ptr<Mapping>> map_for_reading(const Descriptor& fd);

}  // namespace rubato
