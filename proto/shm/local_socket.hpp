// proto/shm/local_socket.hpp - a Unix socket between two processes of one host and one user: sets
// up the memory that they share, and wakes the other one. Errors: Io with the call that failed.
// Threads: ring_bell may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory_file.hpp"
#include "base/result.hpp"

namespace rubato::proto::shm {

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
