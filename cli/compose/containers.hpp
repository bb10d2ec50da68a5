// cli/compose/containers.hpp - a cluster file as containers: what each node runs, may use and
// needs to read. compose_file.hpp and kubernetes.hpp write it down for an engine.
// Errors: BadInput, one line. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "proto/messages.hpp"

namespace rubato::cli {

inline constexpr int kSchedulerPort = 5700;
inline constexpr int kServerPort = 5701;
// User and group of the image (deploy/Dockerfile).
inline constexpr int kImageUser = 570;

// A file of the host and its path in the container, for reading.
struct FileMount {
  std::string host;  // as the user wrote it
  std::string inside;
  bool operator==(const FileMount&) const = default;
};

struct Container {
  proto::Role role = proto::Role::Worker;
  std::string name;                    // of the node
  double cpus = 0;                     // limit; 0: none
  std::int64_t memory_mib = 0;         // limit; 0: none
  std::vector<std::string> arguments;  // of `rubato`
  std::vector<FileMount> files;        // besides the cluster file
};

struct ContainerOptions {
  std::string file;   // cluster file, as typed
  std::string sync;   // sync model
  std::string image;  // of all containers
};

// The cluster file, or the catalog beside it.
struct ClusterText {
  FileMount file;
  std::string text;
};

struct Containers {
  ContainerOptions options;
  std::vector<ClusterText> texts;  // the cluster file first
  std::vector<Container> nodes;    // as cluster_nodes()
};

// Requires: `options.sync` exists, or is empty: the file says which.
[[nodiscard]] Result<Containers> make_containers(const ContainerOptions& options);

// A node, and the name that its key has.
struct ClusterNode {
  proto::Role role;
  std::string name;
};
// The scheduler, then the servers, then the workers of the file.
std::vector<ClusterNode> cluster_nodes(const cluster::ClusterConfig& config);

// Whether nodes of role `who` connect to those of role `where`, and so need to be allowed there.
bool allowed_at(proto::Role who, proto::Role where);

}  // namespace rubato::cli
