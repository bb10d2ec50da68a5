// cli/boxes/layout.hpp - a cluster file as boxes: which nodes run on each, and where they listen.
// Errors: BadInput, one line that names the file and the key. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/compose/containers.hpp"
#include "cluster/cluster_config.hpp"
#include "proto/endpoint.hpp"

namespace rubato::cli {

// Where the files of a cluster lie on a box, and the keys of its nodes.
inline constexpr const char* kBoxDirectory = "/etc/rubato/boxes";
inline constexpr const char* kBoxKeys = "/etc/rubato/keys";
inline constexpr const char* kBoxState = "/var/lib/rubato";

struct Box {
  std::string destination;  // as the file names it
  bool local = false;       // this machine: no ssh
  bool root = false;        // ssh arrives as root; else sudo is needed
  bool scheduler = false;
  std::vector<std::string> servers;  // of one process; each has a key, and a port after the other's
  std::vector<std::string> workers;
  proto::Endpoint server = {};  // where workers find the first server

  // Those that have a key.
  std::vector<ClusterNode> nodes() const;
  // The systemd units of the nodes.
  std::vector<std::string> units() const;
};

struct BoxLayout {
  std::string file;                    // cluster file, as typed
  std::string name;                    // of the cluster
  std::string catalog;                 // the devices.toml beside it; empty: none
  std::string file_on_box;             // whole path
  std::string summary;                 // of what the file says, but for [boxes]: a checksum
  std::vector<Box> boxes;              // the scheduler's first
  proto::Endpoint scheduler;           // where all nodes find it
  std::vector<std::string> elsewhere;  // workers of the file that have no box
  std::string data;                    // file or directory of all nodes, absolute; empty: none
};

// `own_user`: who runs this program, as whom ssh arrives where the file names nobody.
[[nodiscard]] Result<BoxLayout> make_layout(const cluster::ClusterSource& source,
                                            const std::string& own_user);

}  // namespace rubato::cli
