// proto/shm_region.hpp - memory that two processes of one host share, and what passes between them
// to set it up: descriptors, a Unix socket, a sealed memory file without a name. The kernel frees
// all of it when the last process is gone; nothing is ever left in a file system.
// Errors: Io with the call that failed. Threads: Descriptor and Mapping are values of one owner;
// ring_bell may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace rubato::proto::shm {

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
[[nodiscard]] Result<Descriptor> make_region(std::size_t bytes);
// Refuses what is not sealed memory of ordinary pages, of exactly this size.
[[nodiscard]] Result<std::shared_ptr<Mapping>> map_region(const Descriptor& fd, std::size_t bytes);
// All of it, whatever its size, for reading only: who writes there is ended by the kernel.
[[nodiscard]] Result<std::shared_ptr<Mapping>> map_for_reading(const Descriptor& fd);

// A listening Unix socket on an abstract address that the kernel chooses, and that address.
struct Doorstep {
  Descriptor socket;
  std::string address;
};
[[nodiscard]] Result<Doorstep> listen_locally();
// Never waits. Refuses a process of another user.
[[nodiscard]] Result<Descriptor> connect_locally(const std::string& address);
// Returns an empty descriptor when nobody waits any more. Refused: a process of another user.
// Io: no more can be taken in.
[[nodiscard]] Result<Descriptor> accept_locally(const Descriptor& listener);

// For people: the process that connected.
std::string process_at(const Descriptor& socket);

inline constexpr std::size_t kParcelBytesMax = 64;
inline constexpr std::size_t kParcelDescriptorsMax = 2;
// One datagram of a Unix socket: some bytes and descriptors for the other process. Without these
// it allocates nothing.
struct Parcel {
  std::array<std::byte, kParcelBytesMax> data = {};
  std::size_t size = 0;
  std::vector<Descriptor> descriptors;
};
[[nodiscard]] Result<void> send_parcel(const Descriptor& socket, std::span<const std::byte> bytes,
                                       std::span<const int> descriptors);
// A bell is a parcel that only wakes who waits at the other end. Whatever that process does,
// ringing neither blocks nor raises a signal: one that reads no bells has enough of them.
void ring_bell(const Descriptor& socket);
bool is_bell(const Parcel& parcel);
// No more is sent from here, which the other end receives as our end.
void end_reading(const Descriptor& socket);
// Returns nothing when none has come yet; Io when the other end is gone or has ended reading.
[[nodiscard]] Result<std::optional<Parcel>> receive_parcel(const Descriptor& socket);

}  // namespace rubato::proto::shm
