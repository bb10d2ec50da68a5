#include "server/shard_parameters.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/checksum.hpp"
#include "base/multiversion.hpp"

namespace rubato::server {
namespace {

// Copied, changed and hashed together, while it is in the first cache.
constexpr std::size_t kBlockFloats = kChecksumBlockBytes / sizeof(float);

RUBATO_MULTIVERSION void towards(float* w, const float* x, float part, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) w[i] += part * (x[i] - w[i]);
}

}  // namespace

ShardParameters::ShardParameters(std::span<const float> initial, std::uint64_t chunk)
    : size_(initial.size()),
      chunk_(std::clamp<std::uint64_t>(chunk, 1, std::max<std::uint64_t>(size_, 1))),
      pool_(chunk_) {
  for (std::uint64_t at = 0; at < size_; at += chunk_) {
    const auto part = initial.subspan(at, std::min(chunk_, size_ - at));
    chunks_.push_back({pool_.take(), {}});
    std::copy(part.begin(), part.end(), chunks_.back().values->begin());
  }
}

ShardParameters::ShardParameters(std::uint64_t size, std::uint64_t chunk,
                                 std::shared_ptr<const Floats> blank)
    : size_(size),
      chunk_(std::clamp<std::uint64_t>(chunk, 1, std::max<std::uint64_t>(size_, 1))),
      blank_(std::move(blank)) {
  RUBATO_CHECK(blank_ && blank_->size() >= std::min(size_, chunk_), "a blank holds a chunk");
}

template <class Change>
void ShardParameters::change(std::uint64_t offset, std::span<const float> values, Checksum checksum,
                             Change change) {
  RUBATO_CHECK(offset + values.size() <= size_, "update within the shard");
  RUBATO_CHECK(!blank_ || values.empty(), "a blank shard has nothing to change");
  while (!values.empty()) {
    const std::size_t index = offset / chunk_;
    const std::uint64_t begin = offset % chunk_;
    const std::size_t n = std::min<std::size_t>(chunk_ - begin, values.size());
    const bool hash = checksum == Checksum::Compute && n == count(index);
    apply_to(chunks_[index], begin, n, hash, [&](std::span<float> block, std::size_t at) {
      change(block, offset + at, values.subspan(at, block.size()));
    });
    offset += n;
    values = values.subspan(n);
  }
}

void ShardParameters::apply(Optimizer& optimizer, std::uint64_t offset,
                            std::span<const float> update, const Optimizer::Scale& scale,
                            Checksum checksum, UpdateGuard* guard) {
  change(offset, update, checksum,
         [&](std::span<float> w, std::uint64_t at, std::span<const float> u) {
           in_checked_pieces(u, guard, [&](std::size_t from, std::span<const float> piece) {
             optimizer.apply(w.subspan(from, piece.size()), at + from, piece, scale);
           });
         });
}

void ShardParameters::move_towards(std::uint64_t offset, std::span<const float> target, float part,
                                   UpdateGuard* guard) {
  change(offset, target, Checksum::Skip,
         [&](std::span<float> w, std::uint64_t, std::span<const float> x) {
           in_checked_pieces(x, guard, [&](std::size_t from, std::span<const float> piece) {
             towards(w.data() + from, piece.data(), part, piece.size());
           });
         });
}

template <class Change>
void ShardParameters::apply_to(Chunk& chunk, std::uint64_t begin, std::size_t n, bool hash,
                               Change change) {
  chunk.checksum.reset();
  const std::span<float> old = std::span(*chunk.values).subspan(begin, n);
  const bool held = pool_.held_elsewhere(chunk.values);
  if (!held && !hash) return change(old, 0);
  const auto buffer = held ? pool_.take() : chunk.values;
  const std::span<float> part = std::span(*buffer).subspan(begin, n);
  RunningChecksum running;
  for (std::size_t at = 0; at < n; at += kBlockFloats) {
    const auto block = part.subspan(at, std::min(kBlockFloats, n - at));
    if (held) std::ranges::copy(old.subspan(at, block.size()), block.begin());
    change(block, at);
    if (hash) running.add(std::as_bytes(block));
  }
  if (hash) chunk.checksum = running.value();
  if (!held) return;
  const auto end = static_cast<std::ptrdiff_t>(begin + n);
  std::copy_n(chunk.values->begin(), begin, buffer->begin());
  std::copy(chunk.values->begin() + end, chunk.values->end(), buffer->begin() + end);
  chunk.values = buffer;
}

proto::Payload ShardParameters::payload(std::size_t chunk, std::uint64_t begin,
                                        std::uint64_t n) const {
  if (blank_) return proto::Payload::of(blank_).slice(0, n * sizeof(float));
  const Chunk& from = chunks_[chunk];
  auto payload = proto::Payload::of(from.values).slice(begin * sizeof(float), n * sizeof(float));
  if (n == count(chunk) && from.checksum) payload.set_checksum(*from.checksum);
  return payload;
}

void ShardParameters::restore(const Snapshot& snapshot) {
  RUBATO_CHECK(snapshot.size() == chunks_.size(), "a snapshot of other parameters");
  chunks_ = snapshot;
}

void ShardParameters::load(const Snapshot& snapshot) {
  RUBATO_CHECK(snapshot.size() == chunks_.size(), "a snapshot of other parameters");
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const auto buffer = pool_.take();
    std::ranges::copy(*snapshot[i].values, buffer->begin());
    chunks_[i] = {buffer, snapshot[i].checksum};
  }
}

float ShardParameters::largest() const {
  if (blank_) return 0;
  float largest = 0;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const auto own = std::span<const float>(*chunks_[i].values).first(count(i));
    const float of_chunk = largest_magnitude(std::as_bytes(own));
    if (!(of_chunk <= largest)) largest = of_chunk;
    if (!std::isfinite(largest)) return largest;
  }
  return largest;
}

std::vector<float> ShardParameters::values() const {
  std::vector<float> all;
  if (blank_) return all;
  all.reserve(size_);
  for (std::size_t i = 0; i < chunks_.size(); ++i)
    all.insert(all.end(), chunks_[i].values->begin(),
               chunks_[i].values->begin() + static_cast<std::ptrdiff_t>(count(i)));
  return all;
}

}  // namespace rubato::server
