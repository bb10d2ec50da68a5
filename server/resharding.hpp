// server/resharding.hpp - the shards of a run for another number of servers: as a dead server's
// next life would begin it, each old shard is read from its storage; then all of them are joined
// and cut anew.
// Every element keeps its bits: parameters, average, kept and evaluated values, what the optimizer
// and the memory of updates hold, what is collected. Counts of a whole shard are alike in shards of
// one moment. Commits that were under way may make them differ; then
// - version, number of updates and of restores are the largest, and commits the least;
// - the largest collected weight counts, and smaller sums grow with it: the means stay;
// - an order of the tuner that some shards have missed is carried out by them;
// - what only some shards have (the update of a worker, say) is 0 in the others, and for an
//   evaluation that they have not seen their average.
// Pure but for the storage. Memory: shares chunks with the old shards. Threads: one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "server/shard.hpp"
#include "server/storage.hpp"
#include "sync/model.hpp"

namespace rubato::server {

// A shard of the run, as it should be found.
struct OldShard {
  proto::SnapshotInfo info;  // the snapshot that it goes on from
  ElementRange range;
  std::string settings;        // of the run, one a line
  std::uint32_t setbacks = 0;  // of the run
  ShardOptions options;
};
// The shard that its snapshot and the journal after it lead to. `lines`: what is to be told of the
// journal. Errors: as Storage::load(); BadInput for a snapshot of another range or settings.
[[nodiscard]] Result<ShardSnapshot> recover(Storage& storage, const OldShard& old,
                                            std::vector<std::string>& lines);

// Brings all shards to the newest order of the tuner that one of them has carried out.
// `make_gate`: of the sync model.
using MakeGate = std::function<std::unique_ptr<sync::Gate>()>;
void carry_out_orders(std::span<ShardSnapshot> shards, const ShardOptions& options,
                      const MakeGate& make_gate);

// The shard of `range`. `shards`: of one run, in the order of their ranges, which cover `range`.
// `info` is that of the first one, but for the commits.
ShardSnapshot reshard(std::span<const ShardSnapshot> shards, ElementRange range,
                      const ShardOptions& options);

}  // namespace rubato::server
