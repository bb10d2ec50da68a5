// server/memory_storage.hpp - a Storage in memory, which outlives the server that writes to it: for
// tests and the virtual cluster. Writing takes no time. Memory: the chunks of a snapshot are shared
// with the shard until they change. A journal is on disk as soon as it is added. Errors: none.
// Threads: one owner.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "server/storage.hpp"

namespace rubato::server {

// What is kept of one shard, beyond the lives of its servers.
using KeptSnapshots = std::vector<ShardSnapshot>;  // the newest last

struct KeptPart {
  Storage::Part part;
  struct Added {
    std::vector<std::byte> log;
    std::uint64_t commits = 0;
  };
  std::vector<Added> added;
};
using KeptJournal = std::vector<KeptPart>;

class MemoryStorage final : public Storage {
 public:
  // `journal`: null for none.
  MemoryStorage(std::shared_ptr<KeptSnapshots> kept, std::uint64_t cluster,
                std::shared_ptr<KeptJournal> journal = nullptr)
      : kept_(std::move(kept)), cluster_(cluster), journal_(std::move(journal)) {}

  Inventory list() override {
    Inventory all;
    for (const ShardSnapshot& snapshot : *kept_) {
      const std::string name = "snapshot " + std::to_string(snapshot.info.number);
      if (snapshot.cluster == cluster_)
        all.snapshots.push_back(
            {snapshot.info, name, snapshot.range, commits_after(snapshot.info)});
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

  bool journals() const override { return journal_ != nullptr; }
  void begin_part(const Part& part) override { journal_->push_back({part, {}}); }
  std::uint64_t append(LogBuffer log, std::uint64_t commits) override {
    const auto bytes = log.log();
    journal_->back().added.push_back({{bytes.begin(), bytes.end()}, commits});
    return ++position_;
  }
  void sync() override {}
  Result<std::uint64_t> synced() override { return position_; }
  Replayed replay(const proto::SnapshotInfo& info, std::uint32_t setbacks,
                  const Replay& f) override {
    Replayed replayed;
    const KeptPart* const last =
        for_each_added(info, [&](const Part& part, const KeptPart::Added& added) {
          if (part.setbacks != setbacks) return false;
          const auto done = f(added.log);
          if (!done) replayed.lines.push_back(done.error().message);
          if (done) replayed.commits += added.commits;
          return done.has_value();
        });
    replayed.whole = last && last == &journal_->back() && last->part.setbacks == setbacks &&
                     replayed.lines.empty();
    return replayed;
  }

 private:
  // Calls f for what was added after the snapshot, until it returns false. Returns: the last part
  // that was looked at, or null.
  template <class F>
  const KeptPart* for_each_added(const proto::SnapshotInfo& info, F f) const {
    if (!journal_) return nullptr;
    auto at = std::find_if(journal_->rbegin(), journal_->rend(), [&](const KeptPart& each) {
      return each.part.run == info.run && each.part.base == info.number;
    });
    if (at == journal_->rend()) return nullptr;
    auto part = at.base() - 1;
    do {
      for (const auto& added : part->added)
        if (!f(part->part, added)) return &*part;
    } while (++part != journal_->end() && part->part.continues && part->part.run == info.run);
    return &*(part - 1);
  }
  std::uint64_t commits_after(const proto::SnapshotInfo& info) const {
    std::uint64_t commits = 0;
    for_each_added(info, [&](const Part&, const KeptPart::Added& added) {
      commits += added.commits;
      return true;
    });
    return commits;
  }

  std::shared_ptr<KeptSnapshots> kept_;
  std::uint64_t cluster_;
  std::shared_ptr<KeptJournal> journal_;
  std::uint64_t position_ = 0;
  bool saved_ = false;
};

}  // namespace rubato::server
