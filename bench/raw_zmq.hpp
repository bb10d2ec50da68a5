// bench/raw_zmq.hpp - the peer of the parameter path: a minimal parameter server on plain libzmq,
// one ROUTER thread and one DEALER, chunks of 1 MiB. No protocol, checks, checksums or membership.
// Arithmetic::Yes: the ROUTER subtracts each chunk from its parameters and answers with a copy of
// them; the DEALER copies the answer into its vector. No: neither touches the bytes; the answer is
// the ROUTER's own memory, zero-copy. The DEALER sends zero-copy in both.
// It runs in a process of its own, which keeps freed memory as ours does (base/memory.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "bench/ends.hpp"

namespace rubato::bench {

inline constexpr std::size_t kRawChunkBytes = 1u << 20;

class RawPair {
 public:
  enum class Arithmetic { No, Yes };
  RawPair(std::size_t model_bytes, Arithmetic arithmetic, Ends ends = Ends::Anywhere);
  ~RawPair();
  // One push of the whole model and one pull of it, chunk by chunk.
  void round();

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
};

// A RawPair in a child process, this program called again.
class RawProcess {
 public:
  RawProcess(std::size_t model_bytes, RawPair::Arithmetic arithmetic, Ends ends = Ends::Anywhere);
  ~RawProcess();
  RawProcess(const RawProcess&) = delete;
  RawProcess& operator=(const RawProcess&) = delete;
  void rounds(int count);

 private:
  int pid_ = 0;
  int to_child_ = -1;
  int from_child_ = -1;
};

// The flag that main() answers with serve_raw() of what follows it: BYTES adds|moves
// anywhere|apart.
inline constexpr const char* kRawFlag = "--raw-process";
// The child: as many rounds as it is told, until told no more.
int serve_raw(std::span<char* const> arguments);

}  // namespace rubato::bench
