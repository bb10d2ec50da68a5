// A log that is replayed on an earlier state makes the shard that wrote it, to the bit.
#include "server/shard_log.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "base/rng.hpp"
#include "server/shard.hpp"

namespace rubato::server::logged {
namespace {

constexpr std::size_t kCount = 7;

ShardOptions options(OptimizerKind kind, bool average) {
  return {.chunk_bytes = 3 * sizeof(float),
          .optimizer = {.kind = kind, .momentum = 0.5, .global_rate = 0.25, .delay = 3},
          .average = average,
          .keeps_initial = true,
          .blank = nullptr};
}

void do_something(Shard& shard, Rng& rng) {
  std::vector<float> values(kCount);
  for (float& value : values) value = static_cast<float>(rng.normal());
  const auto all = std::span<const float>(values);
  const std::size_t cut = 1 + rng.below(kCount - 1);
  const WorkerId worker{static_cast<std::uint32_t>(rng.below(3))};
  switch (rng.below(13)) {
    case 0: {
      const auto scale = shard.begin_update(1 + rng.below(3), rng.uniform());
      shard.apply(0, all.first(cut), scale);
      shard.count_update();
      shard.apply(cut, all.subspan(cut), scale, Shard::Checksum::Compute);
      return;
    }
    case 1: {
      UpdateGuard guard{0.5f};  // most updates have a larger element: a part of them is applied
      shard.apply(0, all, shard.begin_update(2, 1), Shard::Checksum::Skip, &guard);
      return;
    }
    case 2:
      shard.move_towards(0, all, 0.125f);
      return;
    case 3:
      shard.collect(0, all, 0.5f);
      shard.count_collected(0.5);
      return;
    case 4:
      return shard.flush();
    case 5:
      shard.remember(worker, 0, all, {.by = 0.5f});
      return shard.apply_remembered(3);
    case 6:
      return shard.forget(worker);
    case 7:
      return shard.keep();
    case 8:
      return shard.restore(static_cast<std::uint32_t>(rng.below(100)));
    case 9:
      shard.for_evaluator();
      return;
    case 10:
      if (rng.below(4) == 0) shard.forget_workers();
      return;
    case 11:
      return shard.remember(worker, 0, all,
                            {.by = 0.25f, .keep = 0.5f, .later = rng.below(2) == 0});
    case 12:
      return shard.turn_memory();
  }
}

std::vector<float> flat(const ShardParameters::Snapshot& chunks) {
  std::vector<float> all;
  for (const auto& chunk : chunks)
    all.insert(all.end(), chunk.values->begin(), chunk.values->end());
  return all;
}

void check_same(Shard& one, Shard& other) {
  CHECK(one.parameters().values() == other.parameters().values());
  const ShardState a = one.state(), b = other.state();
  CHECK(flat(a.average) == flat(b.average));
  CHECK(flat(a.evaluated) == flat(b.evaluated));
  CHECK(flat(a.kept) == flat(b.kept));
  CHECK(a.keep_asked == b.keep_asked);
  CHECK(a.optimizer.velocity == b.optimizer.velocity);
  CHECK(a.optimizer.second == b.optimizer.second);
  CHECK(a.collected == b.collected);
  CHECK(a.collected_weight == b.collected_weight);
  CHECK(a.memory.state().last == b.memory.state().last);
  CHECK(a.memory.state().later == b.memory.state().later);
  CHECK(a.memory.state().sum == b.memory.state().sum);
  CHECK(a.version == b.version);
  CHECK(a.updates_begun == b.updates_begun);
  CHECK(a.restores == b.restores);
}

void take_more(std::vector<std::byte>& log, Shard& shard) {
  const LogBuffer more = shard.log()->take();
  log.insert(log.end(), more.log().begin(), more.log().end());
}

TEST_CASE("shard log: a replay on an earlier state is the shard, to the bit") {
  for (const auto kind : {OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Nesterov,
                          OptimizerKind::DelayedNesterov, OptimizerKind::Adam}) {
    for (const bool average : {false, true}) {
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(average);
        CAPTURE(seed);
        Rng rng(seed);
        const auto form = options(kind, average);
        Shard shard(form, std::vector<float>(kCount, 1.0f));
        for (int i = 0; i < 20; ++i) do_something(shard, rng);
        const ShardState before = shard.state();
        shard.keep_log();
        std::vector<std::byte> log;
        for (int i = 0; i < 60; ++i) {
          do_something(shard, rng);
          if (rng.below(3) > 0) continue;
          take_more(log, shard);
        }
        take_more(log, shard);
        CHECK(shard.log()->empty());
        Shard again(form, before);
        std::uint32_t phase = 0;
        REQUIRE(replay(log, again, phase));
        check_same(again, shard);
        CHECK(phase == 0);
      }
    }
  }
}

TEST_CASE("shard log: bytes that are no log are refused, and no size in them is believed") {
  Shard shard(options(OptimizerKind::Sgd, false), std::vector<float>(kCount, 1.0f));
  shard.keep_log();
  shard.apply(0, std::vector<float>(kCount, 1.0f), shard.begin_update(1, 1));
  const LogBuffer taken = shard.log()->take();
  const auto log = taken.log();
  std::uint32_t phase = 0;
  for (std::size_t length = 1; length < log.size(); ++length) {
    if (length == sizeof(ShardOperation)) continue;  // the first one alone is a log
    Shard other(options(OptimizerKind::Sgd, false), std::vector<float>(kCount, 1.0f));
    const auto done = replay(log.first(length), other, phase);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == ErrorCode::Corrupt);
  }
  ShardOperation wild{.kind = ShardOperation::Kind::Apply};
  const auto refused = [&] {
    std::vector<std::byte> bytes(sizeof wild);
    std::memcpy(bytes.data(), &wild, sizeof wild);
    return !replay(bytes, shard, phase).has_value();
  };
  CHECK(refused());  // no delay
  wild.delay = 1;
  wild.count = std::uint64_t{1} << 62;
  CHECK(refused());
  wild.count = 0;
  wild.offset = kCount + 1;
  CHECK(refused());
  wild.offset = 0;
  wild.kind = static_cast<ShardOperation::Kind>(99);
  CHECK(refused());
}

TEST_CASE("shard log: an order that was carried out is told") {
  Shard shard(options(OptimizerKind::Sgd, false), std::vector<float>(kCount, 1.0f));
  ShardLog log;
  log.add({.kind = ShardOperation::Kind::Phase, .number_of = 7});
  std::uint32_t phase = 3;
  REQUIRE(replay(log.take().log(), shard, phase));
  CHECK(phase == 7);
}

}  // namespace
}  // namespace rubato::server::logged
