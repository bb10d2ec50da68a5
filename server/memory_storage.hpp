// server/memory_storage.hpp - a Storage in memory, which outlives the server that writes to it: for
// tests and the virtual cluster. Writing takes no time. Memory: the chunks of a snapshot are shared
// with the shard until they change. Errors: none. Threads: one owner.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "server/storage.hpp"

namespace rubato::server {

// What is kept of one shard, beyond the lives of its servers.
using KeptSnapshots = std::vector<ShardSnapshot>;  // the newest last

class MemoryStorage final : public Storage {
 public:
  MemoryStorage(std::shared_ptr<KeptSnapshots> kept, std::uint64_t cluster)
      : kept_(std::move(kept)), cluster_(cluster) {}

  Inventory list() override {
    Inventory all;
    for (const ShardSnapshot& snapshot : *kept_) {
      const std::string name = "snapshot " + std::to_string(snapshot.info.number);
      if (snapshot.cluster == cluster_)
        all.snapshots.push_back({snapshot.info, name});
      else
        all.refused.push_back(name + ": is of another cluster");
    }
    return all;
  }
  Result<ShardSnapshot> load(const proto::SnapshotInfo& info) override {
    const auto found = std::ranges::find(*kept_, info, &ShardSnapshot::info);
    if (found == kept_->end()) return fail(ErrorCode::Io, "the snapshot is gone");
    return *found;
  }
  void save(ShardSnapshot snapshot, std::uint64_t keep) override {
    const auto oldest = kept_->begin();
    if (kept_->size() == kSnapshotsKept) {
      const bool kept = oldest->info.run == snapshot.info.run && oldest->info.number == keep;
      kept_->erase(kept ? oldest + 1 : oldest);
    }
    kept_->push_back(std::move(snapshot));
    saved_ = true;
  }
  std::optional<Result<void>> poll_saved() override {
    if (!std::exchange(saved_, false)) return std::nullopt;
    return Result<void>();
  }

 private:
  std::shared_ptr<KeptSnapshots> kept_;
  std::uint64_t cluster_;
  bool saved_ = false;
};

}  // namespace rubato::server
