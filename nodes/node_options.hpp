// nodes/node_options.hpp - what a process is told that runs nodes of a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rubato::nodes {

// Whether a process is what the cluster file says of it, in real time.
struct Throttle {
  bool on = false;
  bool kernel = false;     // the kernel shapes the links: run_real()
  bool unchecked = false;  // links are not measured before the start
};

// What scheduler, server and worker have in common.
struct NodeOptions {
  std::string file;
  std::string sync;  // scheduler, server and worker must agree; empty: as the file says
  std::optional<std::uint64_t> seed;  // instead of the file's
  std::string scheduler;              // endpoint of the scheduler: server, worker
  std::string bind;                   // endpoint to listen on: scheduler, server
  std::string advertise;              // server: endpoint that workers use; empty: the bound one
  std::string name;                   // server, worker
  std::string state;                  // directory that outlives the process; empty: none
  std::string cores;                  // server, worker: cores of its threads; empty: any
  std::string keys;                   // directory of keys; empty: the default one, beyond loopback
  bool insecure = false;              // no keys, beyond loopback either
  std::string profile;                // file for a trace of this process; empty: none
  bool overwrite = false;             // whatever kind of file is at `profile`
  double trace_from = 0;      // server, worker: seconds of training so far, where traces begin
  std::string prefix = "--";  // of an option in messages
};

}  // namespace rubato::nodes
