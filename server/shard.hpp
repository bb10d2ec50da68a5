// server/shard.hpp - one shard: the parameters of one range, and everything that changes with them.
// An update is applied chunk by chunk, or added to a weighted mean that is applied as one update.
// The shard knows no members and no messages: server/server_core.hpp decides what happens when.
// A blank shard counts updates but has no values: it is for runs of which only the timing counts.
//
// Four capabilities that a sync model may use:
// - Average: an evaluator is given an average over the last updates (server/parameter_average.hpp).
// - Keep and restore: the shard keeps its average at a good moment, and goes back to it when
//   training diverges. restores() counts how often; updates that began earlier are out of date.
// - Elastic exchange: the parameters move a part of the way towards a worker's own parameters.
// - Memory: an update of each worker is remembered, and their mean is applied.
//
// Pure. Memory: the parameters, the optimizer's state, and the mean once something is collected.
// With an average up to three times the parameters more: the average, the one that an evaluator was
// given last, and the kept one. They share the chunks that did not change in between.
// With a memory: server/update_memory.hpp.
// Threads: one owner; see server/shard_parameters.hpp for what replies hold.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/shareable.hpp"
#include "proto/messages.hpp"
#include "server/optimizer.hpp"
#include "server/parameter_average.hpp"
#include "server/shard_log.hpp"
#include "server/shard_parameters.hpp"
#include "server/update_memory.hpp"

namespace rubato::server {

struct ShardOptions {
  std::uint64_t chunk_bytes = proto::kChunkBytesDefault;  // of a chunk, at most
  OptimizerOptions optimizer;
  bool average = false;
  bool keeps_initial = false;  // restore() has something to go back to without an average, too
  // Null: a real shard. Else a blank one: the beginning of this stands for every payload.
  // It holds a chunk or more.
  std::shared_ptr<const Floats> blank;
};

// All that a durable copy of a shard needs: a shard made from it goes on with the same bits.
// Memory: the parameters, the average and their copies share chunks with the shard.
struct ShardState {
  std::uint64_t size = 0;
  ShardParameters::Snapshot parameters;
  ShardParameters::Snapshot average, evaluated, kept;  // empty: there is none
  bool keep_asked = false;
  Optimizer::State optimizer;
  std::vector<float> collected;
  double collected_weight = 0;
  UpdateMemory memory;
  Version version = 0;
  std::uint64_t updates_begun = 0;
  std::uint32_t restores = 0;
};

class Shard {
 public:
  using Checksum = ShardParameters::Checksum;

  // Without parameters: its range is not known yet.
  Shard() = default;
  Shard(const ShardOptions& options, std::span<const float> initial);
  // A blank one of `size` elements. Requires: options.blank.
  Shard(const ShardOptions& options, std::uint64_t size);
  // Goes on from `state`. Memory: shares nothing with it. Requires: the options of the shard that
  // `state` is of, not blank.
  Shard(const ShardOptions& options, const ShardState& state);

  // Version: the number of updates applied; an applied mean is one update.
  Version version() const { return version_; }
  const ShardParameters& parameters() const { return parameters_; }
  // What an evaluator is given: the average, or the parameters where the shard has no average.
  // Lifetime: until the next update or restore.
  const ShardParameters& for_evaluator();

  // One update is: begin_update() once, apply() for each chunk, count_update() once.
  // begin_update() numbers the update. `members`: so many take part.
  Optimizer::Scale begin_update(std::size_t members, double weight);
  // Adds a chunk to the elements from `offset` on. `checksum`, `guard`: as in
  // ShardParameters::apply().
  void apply(std::uint64_t offset, std::span<const float> update, const Optimizer::Scale& scale,
             Checksum checksum = Checksum::Skip, UpdateGuard* guard = nullptr);
  // One chunk of an elastic exchange, in place of begin_update() and apply():
  // W <- W + part (target - W).
  void move_towards(std::uint64_t offset, std::span<const float> target, float part,
                    UpdateGuard* guard = nullptr);
  // A new version. Call it before the update's last chunk is applied.
  void count_update();

  // One update of the mean is: collect() for each chunk, count_collected() once.
  // `by`: the factor of this update in the sum.
  void collect(std::uint64_t offset, std::span<const float> update, float by);
  void count_collected(double weight);
  // Applies the mean, the sum divided by the collected weight, as one update. Nothing was
  // collected: does nothing.
  void flush();

  // One update of the memory is: remember() for each chunk, apply_remembered() once.
  // `blend`: what becomes of what is remembered of `worker`.
  void remember(WorkerId worker, std::uint64_t offset, std::span<const float> update,
                const UpdateMemory::Blend& blend);
  void forget(WorkerId worker);
  void turn_memory();
  void forget_workers();
  // Applies the mean over the workers that are remembered as one update. `members`: as in
  // Optimizer::scale().
  void apply_remembered(std::size_t members);

  // Keeps what an evaluator was given last. If no evaluator has asked, keeps the average as it is
  // now, except at the first call. Without an average: does nothing, and what is kept stays the
  // initial parameters.
  void keep();
  // Makes the kept values the parameters and the average, and resets the optimizer and the memory.
  // If nothing is kept, only the count changes. `number`: how often shards were restored, with this
  // time.
  void restore(std::uint32_t number);
  std::uint32_t restores() const { return restores_; }

  // Goes back to the kept values as restore() does, where there are any; else to `initial`. The
  // numbers of restores and updates stay.
  void begin_anew(std::span<const float> initial);
  // Takes these as its initial parameters, as if it began with them. The numbers of restores and
  // updates stay. Requires: a value for each parameter.
  void seed(std::span<const float> initial);
  // True if neither the parameters nor what the optimizer remembers have a NaN or infinity. One
  // pass.
  bool finite() const;

  // Lets the average take in the last updates, one pass over memory each. Call it when nobody
  // waits for an answer; the results do not depend on when.
  void catch_up();

  ShardState state();

  // From now on each operation above, but begin_anew() and seed(), is added to a log, whose owner
  // takes it (server/shard_log.hpp). Requires: not blank.
  void keep_log() { log_.emplace(); }
  // Null: none is kept.
  ShardLog* log() { return log_ ? &*log_ : nullptr; }

 private:
  // Logs an operation, unless it is a part of another one. Returns: the floats to use.
  std::span<const float> logged(const ShardOperation& operation,
                                std::span<const float> floats = {});
  // Notes a change for the average.
  void note(std::uint64_t offset, std::uint64_t count);

  ShardOptions options_;
  std::optional<ShardLog> log_;
  bool inside_ = false;  // an operation that is logged as a whole
  ShardParameters parameters_;
  Optimizer optimizer_{{}, 0};
  Version version_ = 0;
  std::uint64_t updates_begun_ = 0;

  std::vector<float> collected_;  // the sum of by x update; empty: nothing was ever collected
  double collected_weight_ = 0;
  UpdateMemory memory_;

  std::optional<ParameterAverage> average_;
  ShardParameters::Snapshot evaluated_;  // the average as an evaluator was given it; empty: never
  ShardParameters::Snapshot kept_;       // empty: nothing is kept
  bool keep_asked_ = false;
  std::uint32_t restores_ = 0;
};

}  // namespace rubato::server
