#include "server/update_memory.hpp"

#include "base/check.hpp"

namespace rubato::server {

void UpdateMemory::put(WorkerId worker, std::uint64_t size, std::uint64_t offset,
                       std::span<const float> update, float by) {
  RUBATO_CHECK(offset + update.size() <= size, "update within the shard");
  sum_.resize(size);
  auto& last = last_[worker];
  last.resize(size);
  for (std::size_t i = 0; i < update.size(); ++i) {
    float& old = last[offset + i];
    const float fresh = by * update[i];
    sum_[offset + i] += static_cast<double>(fresh) - static_cast<double>(old);
    old = fresh;
  }
}

void UpdateMemory::forget(WorkerId worker) {
  const auto found = last_.find(worker);
  if (found == last_.end()) return;
  for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] -= static_cast<double>(found->second[i]);
  last_.erase(found);
}

std::span<const float> UpdateMemory::mean() {
  if (last_.empty()) return {};
  const double part = 1 / static_cast<double>(last_.size());
  mean_.resize(sum_.size());
  for (std::size_t i = 0; i < sum_.size(); ++i) mean_[i] = static_cast<float>(part * sum_[i]);
  return mean_;
}

}  // namespace rubato::server
