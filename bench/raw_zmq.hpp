// bench/raw_zmq.hpp - the peer of the parameter path: a minimal parameter server on plain libzmq,
// one ROUTER thread and one DEALER, chunks of 1 MiB. No protocol, checks, checksums or membership.
// Arithmetic::Yes: the ROUTER subtracts each chunk from its parameters and answers with a copy of
// them; the DEALER copies the answer into its vector. No: neither touches the bytes; the answer is
// the ROUTER's own memory, zero-copy. The DEALER sends zero-copy in both.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace rubato::bench {

inline constexpr std::size_t kRawChunkBytes = 1u << 20;

class RawPair {
 public:
  enum class Arithmetic { No, Yes };
  RawPair(std::size_t model_bytes, Arithmetic arithmetic);
  ~RawPair();
  // One push of the whole model and one pull of it, chunk by chunk.
  void round();

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
};

}  // namespace rubato::bench
