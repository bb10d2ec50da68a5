#include "cluster/make_transport.hpp"

#include "proto/shm/transport.hpp"
#include "proto/zmq_transport.hpp"

namespace rubato::cluster {

std::unique_ptr<proto::Transport> make_transport(const TransportOptions& options) {
  if (options.shared_memory)
    return std::make_unique<proto::ShmTransport>(proto::ShmOptions{.trace = options.trace});
  return std::make_unique<proto::ZmqTransport>(proto::ZmqOptions{.trace = options.trace});
}

}  // namespace rubato::cluster
