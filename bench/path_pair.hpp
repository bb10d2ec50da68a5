// bench/path_pair.hpp - the parameter path itself, without training: shards behind a ZmqTransport
// each, every one on its own thread, and workers that commit a filled update and pull.
// The scheduler is played by the constructor: it hands out the shards and the memberships.
#pragma once

#include <cstddef>
#include <cstdint>
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

worker::WorkerOptions path_worker_options(const PathServers& servers, std::uint32_t index);

// Welcomes whoever says Hello as worker 0, and lets it start.
class PathScheduler {
 public:
  explicit PathScheduler(const PathServers& servers);
  ~PathScheduler();
  const std::string& endpoint() const { return endpoint_; }

 private:
  void serve(const proto::ShardMap& shards, std::stop_token stop);
  proto::ZmqTransport transport_;
  std::string endpoint_;
  std::jthread thread_;
};

// Workers `first`, `first` + 1, ... in one thread, each with its own connection to every shard.
class PathWorkers {
 public:
  PathWorkers(const PathServers& servers, std::uint32_t first, std::uint32_t count);
  // One commit of all parameters of every worker, and the replies to them.
  void round();

 private:
  void flush(std::size_t worker);
  // Until every worker has a whole reply, loaded.
  void finish();
  proto::ZmqTransport transport_;
  std::vector<worker::WorkerCore> cores_;
  std::size_t shards_;
  std::shared_ptr<const std::vector<float>> update_;
  std::size_t busy_ = 0;  // workers without a whole reply
};

}  // namespace rubato::bench
