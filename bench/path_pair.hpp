// bench/path_pair.hpp - the parameter path itself, without training: shards behind a transport
// each, every one on its own thread, and workers that commit a filled update and pull.
// The scheduler is played by the constructor: it hands out the shards and the memberships.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/ends.hpp"
#include "proto/shm/transport.hpp"
#include "server/server_core.hpp"
#include "worker/worker_core.hpp"

namespace rubato::bench {

inline constexpr std::uint64_t kPathCluster = 0xbe7c;

// What a real node uses once it runs: TCP between hosts, with keys or without; shared memory on
// one.
enum class Wire { Tcp, Curve, SharedMemory };

class PathServers {
 public:
  // `sync` names the gate. `state`: a directory for snapshots and a journal; empty: none is kept.
  PathServers(std::size_t parameters, std::uint32_t shards, std::uint32_t workers,
              const std::string& sync = "asp", Wire wire = Wire::Tcp,
              const std::string& state = "");
  ~PathServers();
  const proto::ShardMap& shards() const { return map_; }

 private:
  struct Shard;
  std::vector<std::unique_ptr<Shard>> shards_;
  proto::ShardMap map_;
};

worker::WorkerOptions path_worker_options(const proto::ShardMap& shards, std::uint32_t index);

// Welcomes whoever says Hello as worker 0, and lets it start.
class PathScheduler {
 public:
  explicit PathScheduler(const PathServers& servers);
  ~PathScheduler();
  const std::string& endpoint() const { return endpoint_; }

 private:
  void serve(const proto::ShardMap& shards, std::stop_token stop);
  proto::ShmTransport transport_;
  std::string endpoint_;
  std::jthread thread_;
};

// Workers `first`, `first` + 1, ... in one thread, each with its own connection to every shard.
class PathWorkers {
 public:
  PathWorkers(const proto::ShardMap& shards, std::uint32_t first, std::uint32_t count,
              Wire wire = Wire::Tcp);
  // One commit of all parameters of every worker, and the replies to them.
  void round();
  // Whether worker 0 reaches the first shard through shared memory by now.
  bool shared_memory() const { return transport_.shared_memory(1); }

 private:
  void flush(std::size_t worker);
  // Until every worker has a whole reply, loaded.
  void finish();
  proto::ShmTransport transport_;
  std::vector<worker::WorkerCore> cores_;
  std::size_t shards_;
  std::shared_ptr<const Floats> update_;
  std::size_t busy_ = 0;  // workers without a whole reply
};

// One shard and one worker, each made where `ends` says. Apart, the caller stays on the worker's
// core.
class PathPair {
 public:
  explicit PathPair(std::size_t parameters, Ends ends = Ends::Anywhere, Wire wire = Wire::Tcp,
                    const std::string& state = "");
  void round() { workers_->round(); }

 private:
  std::unique_ptr<PathServers> servers_;
  std::unique_ptr<PathWorkers> workers_;
};

}  // namespace rubato::bench
