// cluster/make_transport.hpp - the transport of a real node, whatever its role: the one place that
// decides between ZeroMQ and shared memory, what is recorded of them, and whether their connections
// go through a link that is emulated.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/trace.hpp"
#include "proto/codec.hpp"
#include "proto/transport.hpp"

namespace rubato::cluster {

// How connections pass through this host's link.
struct LinkWays {
  // Returns: the endpoint to connect to in place of the other node's.
  std::function<Result<std::string>(const std::string& endpoint)> out;
  // Listens at `bind` for those who then reach `inside`. Returns: `bind` with its real port.
  std::function<Result<std::string>(const std::string& bind, const std::string& inside)> in;
};

struct TransportOptions {
  TraceLane* trace = nullptr;  // of the thread that owns the transport; null: not profiled
  bool shared_memory = true;   // with peers on the same host; false: TCP always
  std::shared_ptr<const proto::Keys> keys = nullptr;        // null: not encrypted
  std::size_t payload_bytes_max = proto::kPayloadBytesMax;  // that a listener has a use for
  std::size_t peers = 64;                                   // of a listener: as ZmqOptions
  const LinkWays* ways = nullptr;  // null: the machine's own network. Else never shared memory
};

std::unique_ptr<proto::Transport> make_transport(const TransportOptions& options = {});

}  // namespace rubato::cluster
