// bench/path_pair.hpp - the parameter path itself, without training: shards behind a ZmqTransport
// each, every one on its own thread, and workers that commit a filled update and pull.
// The scheduler is played by the constructor: it hands out the shards and the memberships.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/zmq_transport.hpp"
#include "server/server_core.hpp"
#include "worker/worker_core.hpp"

namespace rubato::bench {

class PathServers {
 public:
  // `sync` names the gate.
  PathServers(std::size_t parameters, std::uint32_t shards, std::uint32_t workers,
              const std::string& sync = "asp");
  ~PathServers();
  const proto::ShardMap& shards() const { return map_; }

 private:
  struct Shard;
  std::vector<std::unique_ptr<Shard>> shards_;
  proto::ShardMap map_;
};

class PathWorker {
 public:
  PathWorker(const PathServers& servers, std::uint32_t index);
  // One commit of all parameters and the reply to it, complete in parameters().
  void round();
  // The two halves of it, for one thread with many workers: begin() sends, poll() handles what has
  // arrived and returns true once the reply is complete.
  void begin();
  bool poll(Duration wait);
  worker::WorkerCore& core() { return core_; }

 private:
  void flush();
  void hear(proto::Body body);
  proto::ZmqTransport transport_;
  worker::WorkerCore core_;
  std::vector<proto::PeerId> peers_;
  std::shared_ptr<const std::vector<float>> update_;
};

}  // namespace rubato::bench
