// emulation/throttle/tcp.hpp - TCP sockets that do not block. Threads: any.
#pragma once

#include <string>

#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "proto/address.hpp"

namespace rubato::emulation::tcp {

// Of "tcp://HOST:PORT". Looks the host up, and so may block as long as the system's resolver does.
[[nodiscard]] Result<proto::Address> address_of(const std::string& endpoint);

// Small: what lies in the kernel has passed an emulated link, or has not reached it. System: they
// grow as a fast and long way needs.
enum class Buffers { Small, System };
// `family`: of the address that it is for.
Descriptor make_socket(int family = AF_INET, Buffers buffers = Buffers::Small);

// Short messages do not wait for an acknowledgement of earlier ones.
void send_at_once(const Descriptor& fd);

struct Listener {
  Descriptor fd;
  int port = 0;
};
[[nodiscard]] Result<Listener> listen_at(const std::string& endpoint,
                                         Buffers buffers = Buffers::Small);

}  // namespace rubato::emulation::tcp
