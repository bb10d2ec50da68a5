// proto/shm/transport.hpp - the Transport of real nodes: ZeroMQ between hosts, shared memory
// between processes of one host, chosen by itself. Every conversation begins over TCP; when both
// ends share a host it moves to shared memory without losing or reordering a message, and back to
// TCP when the other process is gone. docs/protocol.md has the exchange, docs/decisions/0005 the
// reasons. Errors and threads: as Transport.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "proto/awake_wait.hpp"
#include "proto/shm/links.hpp"
#include "proto/transport.hpp"
#include "proto/zmq_transport.hpp"

namespace rubato::proto {

struct ShmOptions {
  Duration send_timeout = kSendTimeout;
  Duration linger = Duration::from_ms(1000);  // as ZmqOptions
  // Processes with equal ids share memory; empty: TCP only.
  std::string host = shm::host_id();
  TraceLane* trace = nullptr;                        // as ZmqOptions
  std::shared_ptr<const Keys> keys = nullptr;        // as ZmqOptions
  std::size_t payload_bytes_max = kPayloadBytesMax;  // as ZmqOptions
  std::size_t peers = 64;                            // as ZmqOptions
};

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const ShmOptions& options = {});
  ~ShmTransport() override;
  ShmTransport(const ShmTransport&) = delete;
  ShmTransport& operator=(const ShmTransport&) = delete;

  Result<std::string> listen(const std::string& endpoint) override;
  using Transport::connect;
  Result<PeerId> connect(const std::string& endpoint, const std::string& public_key) override;
  Result<std::size_t> send(PeerId to, const Message& message) override;
  Result<std::optional<Received>> receive(Duration timeout) override;
  void wake() override;

  // Whether messages to and from this peer go through shared memory now.
  bool shared_memory(PeerId peer) const { return links_.both_ways(peer); }

 private:
  // What is there over either, else what comes within `timeout`, or nothing at other news.
  Result<std::optional<Received>> receive_over_either(Duration timeout);
  // As that; looks again for a while before it sleeps if `awake`.
  Result<std::optional<Received>> look_and_sleep(Duration timeout, bool awake);
  std::optional<Received> receive_over_shm();
  Result<std::optional<Received>> receive_over_tcp(Duration timeout);

  const ShmOptions options_;
  shm::Links links_;
  ZmqTransport zmq_;  // after links_, whose descriptor it watches
  std::map<PeerId, std::string> connections_;
  std::atomic<bool> woken_ = false;
  unsigned turn_ = 0;
  AwakeWait wait_;
};

}  // namespace rubato::proto
