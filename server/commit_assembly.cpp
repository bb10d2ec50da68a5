#include "server/commit_assembly.hpp"

#include <iterator>

#include "base/numbers.hpp"

namespace rubato::server {
CommitAssembly::Added CommitAssembly::add(const proto::Commit& commit, proto::Payload payload) {
  const auto next = chunks_.lower_bound(commit.offset);
  if (next != chunks_.end()) {
    if (next->first == commit.offset)
      return next->second.size() == payload.size() ? Added::Duplicate : Added::Overlap;
    if (commit.offset + commit.count > next->first) return Added::Overlap;
  }
  if (next != chunks_.begin()) {
    const auto& [offset, before] = *std::prev(next);
    if (offset + before.size() / sizeof(float) > commit.offset) return Added::Overlap;
  }
  std::vector<float> scratch;
  finite_ = finite_ && !commit.discard && all_finite(payload.floats(scratch));
  received_ += commit.count;
  // The last chunk of a slice is a shorter one: it says nothing about the size of the others.
  const bool last = commit.offset > 0 && commit.offset + commit.count == total_;
  if (!last) chunk_count_ = commit.count;
  chunks_.emplace_hint(next, commit.offset, std::move(payload));
  return Added::Fresh;
}

std::vector<std::uint64_t> CommitAssembly::missing_offsets() const {
  std::vector<std::uint64_t> missing;
  if (chunk_count_ == 0) return missing;
  std::uint64_t at = 0;
  auto fill_until = [&](std::uint64_t end) {
    for (; at < end; at += chunk_count_) missing.push_back(at);
  };
  for (const auto& [offset, payload] : chunks_) {
    fill_until(offset);
    at = offset + payload.size() / sizeof(float);
  }
  fill_until(total_);
  return missing;
}

}  // namespace rubato::server
