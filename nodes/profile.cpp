#include "nodes/profile.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/log.hpp"
#include "base/trace_merge.hpp"
#include "base/words.hpp"

namespace rubato::nodes {

Result<std::unique_ptr<Trace>> open_profile(const std::string& path, TraceClock clock) {
  if (path.empty()) return nullptr;
  auto trace = Trace::open(path, clock);
  if (!trace) return fail(ErrorCode::BadInput, "--profile: " + trace.error().message);
  return trace;
}

Result<std::unique_ptr<ClusterProfile>> ClusterProfile::open(const std::string& path) {
  auto profile = std::make_unique<ClusterProfile>(path);
  if (path.empty()) return profile;
  RUBATO_ASSIGN(profile->own_, open_profile(profile->next_part(), TraceClock::Own));
  return profile;
}

std::string ClusterProfile::next_part() {
  parts_.push_back(fmt::format("{}.part{}", path_, parts_.size()));
  return parts_.back();
}

std::vector<std::string> ClusterProfile::arguments() {
  if (!own_) return {};
  return {"--profile", next_part()};
}

ClusterProfile::~ClusterProfile() {
  if (!own_) return;
  own_.reset();
  // A node that ended before it opened its file has no part.
  std::erase_if(parts_, [](const std::string& part) { return !std::filesystem::exists(part); });
  if (const auto merged = merge_traces(parts_, path_); !merged) {
    log_failure("--profile " + merged.error().message);
    return;
  }
  for (const auto& part : parts_) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
  }
  log_info(fmt::format("profile of {}: {}", counted(parts_.size(), "process"), path_));
}

}  // namespace rubato::nodes
