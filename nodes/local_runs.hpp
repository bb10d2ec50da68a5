// nodes/local_runs.hpp - the runs whose schedulers are on this machine and belong to this user, so
// that `rubato status` finds them. Each has a file in $XDG_RUNTIME_DIR/rubato, else
// /tmp/rubato-UID, that its process holds a lock on. A run that cannot be told of is not found; it
// runs all the same. Threads: one owner each.
#pragma once

#include <string>
#include <vector>

namespace rubato::nodes {

class LocalRun {
 public:
  // Tells of a scheduler that listens at `endpoint` and whose results go to `directory`.
  LocalRun(const std::string& endpoint, const std::string& directory);
  // Tells of it no more.
  ~LocalRun();
  LocalRun(const LocalRun&) = delete;
  LocalRun& operator=(const LocalRun&) = delete;

 private:
  std::string path_;
  int file_ = -1;  // holds the lock; -1: nothing is told
};

struct LocalRunInfo {
  std::string endpoint;   // tcp://127.0.0.1:40123
  std::string directory;  // absolute
};
// Those that are running now, by directory. Removes the files of processes that were killed.
std::vector<LocalRunInfo> local_runs();

}  // namespace rubato::nodes
