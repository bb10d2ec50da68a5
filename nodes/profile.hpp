// nodes/profile.hpp - --profile FILE: the trace of this process, or of a whole `rubato up`.
// The file is ended, and its size told, when the object goes, however the run went.
// Lifetime: longer than every thread that records.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/trace.hpp"

namespace rubato::nodes {

// The trace of this process; of an empty path: null, nothing is recorded. BadInput, naming the
// option, when the file cannot be written.
[[nodiscard]] Result<std::unique_ptr<Trace>> open_profile(const std::string& path,
                                                          TraceClock clock);

// What `rubato up` records: every node into a part of its own, all of them merged at the end.
class ClusterProfile {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ClusterProfile>> open(const std::string& path);
  explicit ClusterProfile(std::string path) : path_(std::move(path)) {}
  ~ClusterProfile();
  ClusterProfile(const ClusterProfile&) = delete;
  ClusterProfile& operator=(const ClusterProfile&) = delete;

  // The scheduler's; null when nothing is recorded.
  Trace* trace() const { return own_.get(); }
  // For a child: the --profile arguments that name its part, or none.
  std::vector<std::string> arguments();

 private:
  std::string next_part();

  std::string path_;
  std::vector<std::string> parts_;
  std::unique_ptr<Trace> own_;
};

}  // namespace rubato::nodes
