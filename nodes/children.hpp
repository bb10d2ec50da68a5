// nodes/children.hpp - nodes that are processes started by this one: none outlives it.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato::nodes {

class Children {
 public:
  // `more`: of the environment of all.
  explicit Children(std::string program, std::map<std::string, std::string> more = {})
      : program_(std::move(program)), more_(std::move(more)) {}
  ~Children() { end(); }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Starts the program as a node of this role, with `arguments` after the name of the role,
  // in a process group of its own (so that Ctrl-C reaches only us) and bound to end when we end.
  // One that cannot be started has ended at once. `space`: its network namespace; -1: ours.
  void start(proto::Role role, const std::string& name, const std::vector<std::string>& arguments,
             int space = -1);

  // Sends a signal to the child of this role and name. Returns: false if there is none.
  bool signal(proto::Role role, const std::string& name, int number) const;
  bool any(proto::Role role) const;

  struct Ended {
    proto::Role role = proto::Role::Worker;
    std::string name;
    std::string how;  // "exit code 2", "signal 9"
  };
  // Those that ended since the last call.
  std::vector<Ended> reap();
  // Waits for all to end by themselves. Returns: false when some are left after `patience`.
  bool wait(Duration patience);
  // Ends those that are left: SIGTERM, then SIGKILL.
  void end();

 private:
  struct Child {
    proto::Role role = proto::Role::Worker;
    std::string name;
    pid_t pid;
  };
  const std::string program_;
  const std::map<std::string, std::string> more_;
  std::vector<Child> children_;
  std::vector<Ended> not_started_;  // since the last reap()
};

}  // namespace rubato::nodes
