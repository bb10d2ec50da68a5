// cluster/make_transport.hpp - the transport of a real node, whatever its role: the one place that
// decides between ZeroMQ and shared memory, and what is recorded of them.
#pragma once

#include <memory>

#include "base/trace.hpp"
#include "proto/codec.hpp"
#include "proto/transport.hpp"

namespace rubato::cluster {

struct TransportOptions {
  TraceLane* trace = nullptr;  // of the thread that owns the transport; null: not profiled
  bool shared_memory = true;   // with peers on the same host; false: TCP always
  std::shared_ptr<const proto::Keys> keys = nullptr;        // null: not encrypted
  std::size_t payload_bytes_max = proto::kPayloadBytesMax;  // that a listener has a use for
};

std::unique_ptr<proto::Transport> make_transport(const TransportOptions& options = {});

}  // namespace rubato::cluster
