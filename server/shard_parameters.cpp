#include "server/shard_parameters.hpp"

#include "base/check.hpp"

namespace rubato::server {
namespace {

// Copied and changed together, while it is in the first cache.
constexpr std::size_t kBlockFloats = 4096;

}  // namespace

ShardParameters::ShardParameters(std::span<const float> initial, std::uint64_t chunk)
    : size_(initial.size()),
      chunk_(std::clamp<std::uint64_t>(chunk, 1, std::max<std::uint64_t>(size_, 1))),
      pool_(chunk_) {
  for (std::uint64_t at = 0; at < size_; at += chunk_) {
    const auto part = initial.subspan(at, std::min(chunk_, size_ - at));
    chunks_.push_back(pool_.take());
    std::copy(part.begin(), part.end(), chunks_.back()->begin());
  }
}

ShardParameters::ShardParameters(std::uint64_t size, std::uint64_t chunk,
                                 std::shared_ptr<const std::vector<float>> blank)
    : size_(size),
      chunk_(std::clamp<std::uint64_t>(chunk, 1, std::max<std::uint64_t>(size_, 1))),
      blank_(std::move(blank)) {
  RUBATO_CHECK(blank_ && blank_->size() >= std::min(size_, chunk_), "a blank holds a chunk");
}

template <class F>
void ShardParameters::change(std::uint64_t offset, std::span<const float> values, F change) {
  RUBATO_CHECK(offset + values.size() <= size_, "update within the shard");
  RUBATO_CHECK(!blank_ || values.empty(), "a blank shard has nothing to change");
  while (!values.empty()) {
    proto::BufferPool::Buffer& chunk = chunks_[offset / chunk_];
    const std::uint64_t in_chunk = offset % chunk_;
    const std::size_t n = std::min<std::size_t>(chunk_ - in_chunk, values.size());
    const std::span<float> part = std::span(*chunk).subspan(in_chunk, n);
    if (!pool_.held_elsewhere(chunk)) {
      change(part, offset, values.first(n));
    } else {
      const auto copy = pool_.take();
      std::copy_n(chunk->begin(), in_chunk, copy->begin());
      for (std::size_t at = 0; at < n; at += kBlockFloats) {
        const std::size_t m = std::min(kBlockFloats, n - at);
        const auto block = std::span(*copy).subspan(in_chunk + at, m);
        std::copy_n(part.begin() + static_cast<std::ptrdiff_t>(at), m, block.begin());
        change(block, offset + at, values.subspan(at, m));
      }
      const auto end = static_cast<std::ptrdiff_t>(in_chunk + n);
      std::copy(chunk->begin() + end, chunk->end(), copy->begin() + end);
      chunk = copy;
    }
    offset += n;
    values = values.subspan(n);
  }
}

void ShardParameters::apply(Optimizer& optimizer, std::uint64_t offset,
                            std::span<const float> update, const Optimizer::Scale& scale) {
  change(offset, update, [&](std::span<float> w, std::uint64_t at, std::span<const float> u) {
    optimizer.apply(w, at, u, scale);
  });
}

void ShardParameters::move_towards(std::uint64_t offset, std::span<const float> target,
                                   float part) {
  change(offset, target, [&](std::span<float> w, std::uint64_t, std::span<const float> x) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += part * (x[i] - w[i]);
  });
}

std::vector<float> ShardParameters::values() const {
  std::vector<float> all;
  if (blank_) return all;
  all.reserve(size_);
  for (std::uint64_t at = 0; at < size_; at += chunk_) {
    const auto& chunk = *chunks_[at / chunk_];
    const auto n = static_cast<std::ptrdiff_t>(std::min(chunk_, size_ - at));
    all.insert(all.end(), chunk.begin(), chunk.begin() + n);
  }
  return all;
}

}  // namespace rubato::server
