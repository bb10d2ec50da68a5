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
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) send_all_again(shard);
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
    if (shard.under_way >= kCreditChunks) continue;
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
    if (order_ == ShardOrder::InTurns) turn_ = index + 1;
    return Chunk{static_cast<std::uint32_t>(index), offset, std::min(chunk_, shard.total - offset)};
  }
  return std::nullopt;
}

void CommitSender::on_answer(std::uint32_t shard) {
  std::uint32_t& under_way = shards_[shard].under_way;
  if (under_way > 0) --under_way;
}

void CommitSender::send_again(std::uint32_t shard, const std::vector<std::uint64_t>& offsets) {
  ShardState& state = shards_[shard];
  state.next = state.total;  // the server names what was never sent as well
  state.under_way = 0;
  state.again.clear();
  for (const auto offset : offsets)
    if (offset < state.total) state.again.push_back(offset);
  std::reverse(state.again.begin(), state.again.end());
}

void CommitSender::send_all_again(std::uint32_t shard) {
  shards_[shard].next = 0;
  shards_[shard].again.clear();
  shards_[shard].under_way = 0;
}

}  // namespace rubato::worker
