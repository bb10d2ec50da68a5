#include "server/update_memory.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace rubato::server {

void UpdateMemory::put(WorkerId worker, std::uint64_t size, std::uint64_t offset,
                       std::span<const float> update, const Blend& blend) {
  RUBATO_CHECK(offset + update.size() <= size, "update within the shard");
  if (blend.later) {
    auto& later = state_.later[worker];
    later.resize(size);
    for (std::size_t i = 0; i < update.size(); ++i)
      later[offset + i] = blend.keep * later[offset + i] + blend.by * update[i];
    return;
  }
  state_.sum.resize(size);
  auto& last = state_.last[worker];
  last.resize(size);
  for (std::size_t i = 0; i < update.size(); ++i) {
    float& old = last[offset + i];
    const float fresh = blend.keep * old + blend.by * update[i];
    state_.sum[offset + i] += static_cast<double>(fresh) - static_cast<double>(old);
    old = fresh;
  }
}

void UpdateMemory::turn() {
  state_.last = std::exchange(state_.later, {});
  if (!state_.last.empty()) state_.sum.resize(state_.last.begin()->second.size());
  std::ranges::fill(state_.sum, 0.0);
  for (const auto& [worker, update] : state_.last)
    for (std::size_t i = 0; i < update.size(); ++i) state_.sum[i] += static_cast<double>(update[i]);
}

void UpdateMemory::forget(WorkerId worker) {
  state_.later.erase(worker);
  const auto found = state_.last.find(worker);
  if (found == state_.last.end()) return;
  for (std::size_t i = 0; i < state_.sum.size(); ++i)
    state_.sum[i] -= static_cast<double>(found->second[i]);
  state_.last.erase(found);
}

std::span<const float> UpdateMemory::mean() {
  if (state_.last.empty()) return {};
  const double part = 1 / static_cast<double>(state_.last.size());
  mean_.resize(state_.sum.size());
  for (std::size_t i = 0; i < state_.sum.size(); ++i)
    mean_[i] = static_cast<float>(part * state_.sum[i]);
  return mean_;
}

}  // namespace rubato::server
