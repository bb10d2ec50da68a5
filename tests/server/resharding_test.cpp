// Shards for another number of servers: every bit stays, training goes on as it would have, and
// counts that differ between shards are joined.
#include "server/resharding.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <limits>

#include "base/rng.hpp"
#include "proto/shard_map.hpp"
#include "server/memory_storage.hpp"
#include "sync/keeping_gate.hpp"

namespace rubato::server::resharded {
namespace {

constexpr std::uint64_t kParameters = 23;
constexpr std::uint64_t kCluster = 0xc1;
const std::string kSettings = "sync = asp\nseed = 1\n";

using Floats23 = std::vector<float>;

// --- shards --------------------------------------------------------------------------------------

ShardOptions options_of(const OptimizerOptions& optimizer, bool average, bool keeps_initial) {
  return {.chunk_bytes = 3 * sizeof(float),
          .optimizer = optimizer,
          .average = average,
          .keeps_initial = keeps_initial,
          .blank = nullptr};
}
const ShardOptions kAveraged = options_of({}, true, false);

// All shards of a model, to which the same is done.
class Model {
 public:
  Model(const ShardOptions& options, std::uint32_t servers) : options_(options) {
    const Floats23 initial = drawn(0);
    for (std::uint32_t i = 0; i < servers; ++i)
      shards_.emplace_back(options, part(initial, proto::shard_range(kParameters, i, servers)));
  }
  Model(const ShardOptions& options, std::span<const ShardSnapshot> from) : options_(options) {
    for (const ShardSnapshot& each : from) shards_.emplace_back(options, each.state);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(shards_.size()); }
  Shard& shard(std::uint32_t i) { return shards_[i]; }

  // Whatever a sync model may do, with values drawn from `what`.
  void happen(std::uint64_t what) {
    for (std::uint32_t i = 0; i < size(); ++i) happen(i, what);
  }
  void happen(std::uint32_t i, std::uint64_t what) {
    const Floats23 all = drawn(what);
    const auto own = part(all, range(i));
    Shard& shard = shards_[i];
    shard.count_update();
    shard.apply(0, own, shard.begin_update(2, 0.75));
    if (what % 5 == 0) shard.move_towards(0, own, 0.25f);
    shard.collect(0, own, 0.5f);
    shard.count_collected(0.5);
    if (what % 11 == 0) shard.flush();
    const WorkerId worker{static_cast<std::uint32_t>(what % 3)};
    shard.remember(worker, 0, own, {.by = 0.5f});
    shard.remember(worker, 0, own, {.by = 0.25f, .keep = 0.5f, .later = true});
    if (what % 8 == 0) shard.turn_memory();
    if (what % 4 == 0) shard.apply_remembered(2);
    if (what % 2 == 0) shard.for_evaluator();
    if (what % 6 == 0) shard.keep();
    if (what == 13) shard.restore(1);
  }

  std::vector<ShardSnapshot> snapshots() {
    std::vector<ShardSnapshot> all;
    for (std::uint32_t i = 0; i < size(); ++i)
      all.push_back({.cluster = kCluster,
                     .info = {.run = 7, .number = 4, .commits = 100},
                     .range = range(i),
                     .settings = kSettings,
                     .phase = 3,
                     .state = shards_[i].state()});
    return all;
  }

 private:
  static Floats23 drawn(std::uint64_t what) {
    Rng rng(what);
    Floats23 values(kParameters);
    for (float& value : values) value = static_cast<float>(rng.normal());
    return values;
  }
  static std::span<const float> part(const Floats23& all, ElementRange range) {
    return std::span(all).subspan(range.begin, range.count());
  }
  ElementRange range(std::uint32_t i) const { return proto::shard_range(kParameters, i, size()); }

  ShardOptions options_;
  std::vector<Shard> shards_;
};

std::vector<ShardSnapshot> for_servers(std::span<const ShardSnapshot> shards, std::uint32_t servers,
                                       const ShardOptions& options) {
  std::vector<ShardSnapshot> all;
  for (std::uint32_t i = 0; i < servers; ++i)
    all.push_back(reshard(shards, proto::shard_range(kParameters, i, servers), options));
  return all;
}

// --- all bits of a snapshot ----------------------------------------------------------------------

class Bits {
 public:
  explicit Bits(const ShardSnapshot& of) {
    const ShardState& state = of.state;
    add(of.cluster, of.info.run, of.info.number, of.info.commits, of.range.begin, of.range.end);
    add(of.phase, state.size, state.keep_asked, state.version, state.updates_begun, state.restores);
    add(std::bit_cast<std::uint64_t>(state.collected_weight));
    for (const auto* chunks : {&state.parameters, &state.average, &state.evaluated, &state.kept}) {
      add(chunks->size());
      std::uint64_t left = state.size;
      for (const auto& chunk : *chunks) {
        add(chunk.values->size());
        for (const float value :
             std::span(*chunk.values).first(std::min<std::uint64_t>(left, chunk.values->size())))
          add(std::bit_cast<std::uint32_t>(value));
        left -= std::min<std::uint64_t>(left, chunk.values->size());
      }
    }
    add_list(state.optimizer.velocity);
    add_list(state.optimizer.second);
    add_list(state.collected);
    for (const auto& [worker, update] : state.memory.state().last) {
      add(worker.value);
      add_list(update);
    }
    add(state.memory.state().sum.size());
    for (const double value : state.memory.state().sum) add(std::bit_cast<std::uint64_t>(value));
  }
  bool operator==(const Bits&) const = default;

 private:
  template <class... Words>
  void add(Words... words) {
    (words_.push_back(static_cast<std::uint64_t>(words)), ...);
  }
  void add_list(const std::vector<float>& values) {
    add(values.size());
    for (const float value : values) add(std::bit_cast<std::uint32_t>(value));
  }
  std::vector<std::uint64_t> words_;
};

std::vector<Bits> bits(std::span<const ShardSnapshot> shards) {
  return {shards.begin(), shards.end()};
}

Floats23 parameters(Model& model) {
  Floats23 all;
  for (std::uint32_t i = 0; i < model.size(); ++i)
    for (const float value : model.shard(i).parameters().values()) all.push_back(value);
  return all;
}

Floats23 evaluated(Model& model) {
  Floats23 all;
  for (std::uint32_t i = 0; i < model.size(); ++i)
    for (const float value : model.shard(i).for_evaluator().values()) all.push_back(value);
  return all;
}

// Every optimizer, with and without an average and what a model keeps.
template <class F>
void for_each_kind_of_shard(F f) {
  for (const auto& optimizer : optimizers())
    for (const bool average : {false, true})
      for (const bool keeps : {false, true}) {
        CAPTURE(optimizer.name);
        CAPTURE(average);
        CAPTURE(keeps);
        f(options_of({.kind = optimizer.kind, .global_rate = 0.25, .delay = 3}, average, keeps));
      }
}

// --- cases ---------------------------------------------------------------------------------------

TEST_CASE("resharding: 3 servers, 2, 5, 3 again: every bit is as it was") {
  for_each_kind_of_shard([](const ShardOptions& options) {
    Model three(options, 3);
    for (std::uint64_t i = 1; i <= 20; ++i) {
      const auto before = three.snapshots();
      auto shards = before;
      for (const std::uint32_t servers : {2u, 5u, 3u})
        shards = for_servers(shards, servers, options);
      REQUIRE(bits(shards) == bits(before));
      three.happen(i);
    }
  });
}

TEST_CASE("resharding: the same updates lead the new shards to the bits of the old ones") {
  for_each_kind_of_shard([](const ShardOptions& options) {
    for (const std::uint32_t servers : {1u, 2u, 5u, 23u}) {
      CAPTURE(servers);
      Model old(options, 3);
      for (std::uint64_t i = 1; i <= 17; ++i) old.happen(i);
      Model made(options, for_servers(old.snapshots(), servers, options));
      for (std::uint64_t i = 18; i <= 40; ++i) {
        CHECK(parameters(made) == parameters(old));
        CHECK(evaluated(made) == evaluated(old));
        old.happen(i);
        made.happen(i);
      }
      old.shard(0).restore(2);
      old.shard(1).restore(2);
      old.shard(2).restore(2);
      for (std::uint32_t i = 0; i < servers; ++i) made.shard(i).restore(2);
      CHECK(parameters(made) == parameters(old));
    }
  });
}

TEST_CASE("resharding: a shard of no elements, and more servers than elements") {
  Model three(kAveraged, 3);
  for (std::uint64_t i = 1; i <= 5; ++i) three.happen(i);
  const auto before = three.snapshots();
  const auto many = for_servers(before, 30, kAveraged);
  CHECK(many.back().state.size == 0);
  CHECK(many.back().state.version == before.front().state.version);
  CHECK(bits(for_servers(many, 3, kAveraged)) == bits(before));
}

TEST_CASE("resharding: counts of shards that stand at different commits are joined") {
  Model old(kAveraged, 2);
  old.happen(1);
  old.happen(0, 3);  // a commit was under way
  auto shards = old.snapshots();
  shards[0].info.commits = 101;
  const auto one = for_servers(shards, 1, kAveraged).front();
  CHECK(one.info.commits == 100);
  CHECK(one.state.version == 2);
  CHECK(one.state.updates_begun == 2);
  // Both collected means are as they were.
  CHECK(shards[0].state.collected_weight == 1.0);
  CHECK(shards[1].state.collected_weight == 0.5);
  CHECK(one.state.collected_weight == 1.0);
  CHECK(one.state.collected[0] == shards[0].state.collected[0]);
  CHECK(one.state.collected[12] == 2 * shards[1].state.collected[0]);
  // Worker 0 was heard by the first shard alone: 0 for the others' elements.
  const auto& last = one.state.memory.state().last;
  CHECK(last.at({0})[0] == shards[0].state.memory.state().last.at({0})[0]);
  CHECK(last.at({0})[12] == 0);
  // Nobody has evaluated the second one: its average takes the place.
  old.shard(0).for_evaluator();
  shards = old.snapshots();
  CHECK(shards[1].state.evaluated.empty());
  Model joined(kAveraged, for_servers(shards, 1, kAveraged));
  joined.shard(0).keep();
  joined.shard(0).keep();
  joined.shard(0).restore(1);
  CHECK(parameters(joined) == evaluated(old));
}

TEST_CASE("resharding: an order that only some shards have carried out is carried out by all") {
  const auto gate = [] {
    class Plain : public sync::Gate {
      void on_join(Instant, WorkerId) override {}
      sync::GateActions on_leave(Instant, WorkerId) override { return {}; }
      sync::GateActions on_commit(Instant, WorkerId) override { return {}; }
    };
    return std::make_unique<sync::KeepingGate<Plain>>();
  };
  Model old(kAveraged, 2);
  for (std::uint64_t i = 1; i <= 3; ++i) old.happen(i);
  old.shard(0).restore(1);
  auto shards = old.snapshots();
  shards[0].phase = sync::kRestoreOrder + 3;
  shards[1].phase = 3;
  carry_out_orders(shards, kAveraged, gate);
  old.shard(1).restore(1);
  auto both = old.snapshots();
  both[0].phase = both[1].phase = sync::kRestoreOrder + 3;
  CHECK(bits(shards) == bits(both));
}

TEST_CASE("resharding: a shard is read as its server's next life begins it, with its journal") {
  Model old(kAveraged, 3);
  old.happen(1);
  const auto kept = std::make_shared<KeptSnapshots>();
  const auto journal = std::make_shared<KeptJournal>();
  MemoryStorage storage(kept, kCluster, journal);
  auto saved = old.snapshots()[1];
  storage.save(saved, 0);
  storage.begin_part({.run = 7, .base = 4, .setbacks = 2, .continues = false});
  old.shard(1).keep_log();
  for (std::uint64_t i = 2; i <= 14; ++i) old.happen(i);
  old.shard(1).log()->add({.kind = ShardOperation::Kind::Phase, .number_of = 9});
  storage.append(old.shard(1).log()->take(), 13);
  OldShard wanted{.info = saved.info,
                  .range = saved.range,
                  .settings = kSettings,
                  .setbacks = 2,
                  .options = kAveraged};
  std::vector<std::string> lines;
  const auto found = recover(storage, wanted, lines);
  REQUIRE(found);
  auto live = old.snapshots()[1];
  live.info.commits = 113;
  live.phase = 9;
  CHECK(Bits(*found) == Bits(live));
  // A journal of before a setback is not used.
  wanted.setbacks = 3;
  CHECK(Bits(recover(storage, wanted, lines).value()) == Bits(saved));
  // Another range, another model.
  wanted.range = {0, 8};
  CHECK(recover(storage, wanted, lines).error().message ==
        "is of parameters 8 to 16, and its shard was 0 to 8");
  wanted.range = saved.range;
  wanted.settings = "sync = bsp\nseed = 1\n";
  const auto other = recover(storage, wanted, lines);
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::BadInput);
  CHECK(other.error().message.find("sync = asp") != std::string::npos);
}

}  // namespace
}  // namespace rubato::server::resharded
