#include "cluster/make_transport.hpp"

#include "proto/shm/transport.hpp"

namespace rubato::cluster {

std::unique_ptr<proto::Transport> make_transport(const TransportOptions& options) {
  proto::ShmOptions shm{
      .trace = options.trace, .keys = options.keys, .payload_bytes_max = options.payload_bytes_max};
  if (!options.shared_memory) shm.host.clear();
  return std::make_unique<proto::ShmTransport>(shm);
}

}  // namespace rubato::cluster
