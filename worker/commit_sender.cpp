#include "worker/commit_sender.hpp"

#include <algorithm>

namespace rubato::worker {

CommitSender::CommitSender(const proto::ShardMap& shards, std::uint64_t chunk, ShardOrder order)
    : chunk_(chunk), order_(order) {
  for (const auto& entry : shards.shards) shards_.emplace_back().total = entry.range.count();
  if (order == ShardOrder::ByNeed) {
    const auto count = std::max<std::size_t>(shards_.size(), 1);
    credit_ = CreditChoice(kCreditChunks, kCreditChunks * static_cast<std::uint32_t>(count));
  }
  stop();
}

void CommitSender::start() {
  for (auto& shard : shards_) {
    shard.next = 0;
    shard.again.clear();
    shard.under_way = 0;
    shard.asked = shard.narrow = false;
  }
  turn_ = 0;
}

void CommitSender::stop() {
  for (auto& shard : shards_) {
    shard.next = shard.total;
    shard.again.clear();
  }
}

std::uint32_t CommitSender::credit_used() const {
  std::uint32_t used = 0;
  for (const ShardState& shard : shards_)
    used += shard.under_way - (shard.under_way > 0 && sent(shard) ? 1 : 0);
  return used;
}

std::optional<CommitSender::Chunk> CommitSender::poll() {
  if (order_ == ShardOrder::ByNeed && credit_used() >= credit_.credit()) return std::nullopt;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const std::size_t index = (turn_ + i) % shards_.size();
    ShardState& shard = shards_[index];
    if (shard.under_way >= (shard.narrow ? 1 : kCreditChunks)) continue;
    std::uint64_t offset = shard.next;
    if (!shard.again.empty()) {
      offset = shard.again.back();
      shard.again.pop_back();
    } else if (shard.next < shard.total) {
      shard.next += chunk_;
    } else {
      continue;
    }
    ++shard.under_way;
    if (shard.asked) shard.since.push_back(offset);
    if (order_ == ShardOrder::InTurns) turn_ = index + 1;
    return Chunk{static_cast<std::uint32_t>(index), offset, std::min(chunk_, shard.total - offset)};
  }
  return std::nullopt;
}

void CommitSender::on_answer(std::uint32_t shard) {
  std::uint32_t& under_way = shards_[shard].under_way;
  if (under_way > 0) --under_way;
  shards_[shard].narrow = false;
}

void CommitSender::on_dropped(std::uint32_t shard) {
  on_answer(shard);
  if (shards_[shard].asked) shards_[shard].since.pop_back();
}

void CommitSender::on_asked(std::uint32_t shard) {
  shards_[shard].asked = true;
  shards_[shard].since.clear();
}

bool CommitSender::on_missing(std::uint32_t shard, const std::vector<std::uint64_t>& offsets) {
  ShardState& state = shards_[shard];
  state.asked = false;
  state.under_way = static_cast<std::uint32_t>(state.since.size());
  state.again.clear();
  std::ranges::sort(state.since);
  for (const auto offset : offsets)  // the server also names chunks that were never sent
    if (offset < state.next && offset < state.total &&
        !std::ranges::binary_search(state.since, offset))
      state.again.push_back(offset);
  std::ranges::reverse(state.again);
  state.narrow = !state.again.empty();
  return state.narrow;
}

bool CommitSender::on_all_missing(std::uint32_t shard) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t at = 0; at < shards_[shard].next; at += chunk_) all.push_back(at);
  return on_missing(shard, all);
}

}  // namespace rubato::worker
