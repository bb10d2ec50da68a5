#include "proto/chunk_set.hpp"

#include <algorithm>
#include <iterator>

namespace rubato::proto {

void ChunkSet::begin(std::uint64_t total) {
  chunks_.clear();
  total_ = total;
  received_ = 0;
  chunk_count_ = 0;
  prefix_ = 0;
  prefix_chunks_ = 0;
}

bool ChunkSet::has(std::uint64_t offset) const {
  const auto at = std::lower_bound(
      chunks_.begin(), chunks_.end(), offset,
      [](const Chunk& chunk, std::uint64_t wanted) { return chunk.offset < wanted; });
  return at != chunks_.end() && at->offset == offset;
}

ChunkSet::Added ChunkSet::add(std::uint64_t offset, std::uint64_t count) {
  // In order, the usual case, the search ends where it begins.
  auto next = chunks_.end();
  if (!chunks_.empty() && chunks_.back().offset >= offset)
    next = std::lower_bound(chunks_.begin(), chunks_.end(), offset,
                            [](const Chunk& chunk, std::uint64_t at) { return chunk.offset < at; });
  if (next != chunks_.end()) {
    if (next->offset == offset) return next->count == count ? Added::Duplicate : Added::Overlap;
    if (offset + count > next->offset) return Added::Overlap;
  }
  if (next != chunks_.begin()) {
    const Chunk& before = *std::prev(next);
    if (before.offset + before.count > offset) return Added::Overlap;
  }
  received_ += count;
  // The last chunk of a slice is a shorter one: it says nothing about the size of the others.
  const bool last = offset > 0 && offset + count == total_;
  if (!last) chunk_count_ = count;
  chunks_.insert(next, {offset, count});
  for (; prefix_chunks_ < chunks_.size() && chunks_[prefix_chunks_].offset == prefix_;
       ++prefix_chunks_)
    prefix_ += chunks_[prefix_chunks_].count;
  return Added::Fresh;
}

std::vector<std::uint64_t> ChunkSet::missing_offsets(std::size_t max) const {
  std::vector<std::uint64_t> missing;
  if (chunk_count_ == 0) return missing;
  std::uint64_t at = 0;
  auto fill_until = [&](std::uint64_t end) {
    for (; at < end && missing.size() < max; at += chunk_count_) missing.push_back(at);
  };
  for (const Chunk& chunk : chunks_) {
    fill_until(chunk.offset);
    at = chunk.offset + chunk.count;
  }
  fill_until(total_);
  return missing;
}

}  // namespace rubato::proto
