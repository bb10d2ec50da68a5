// One shard without its protocol: a shard made from the state of another goes on with the same
// bits, and the capabilities work together.
#include <doctest/doctest.h>

#include <optional>

#include "base/rng.hpp"
#include "server/shard.hpp"

namespace rubato::server {
namespace {

using Values = std::vector<float>;

const Values kInitial{10, 20, 30, 40, 50};

ShardOptions options(OptimizerKind kind, bool average = false) {
  return {.chunk_bytes = 2 * sizeof(float),
          .optimizer = {.kind = kind, .momentum = 0.5, .global_rate = 0.25, .delay = 3},
          .average = average,
          .blank = nullptr};
}

// One of all the things that can happen to a shard.
void happen(Shard& shard, std::uint64_t what) {
  Rng rng(what);
  Values values(5);
  for (float& value : values) value = static_cast<float>(rng.normal());
  const auto all = std::span<const float>(values);
  switch (what % 10) {
    case 0:
      shard.collect(0, all.first(2), 0.5f);
      shard.collect(2, all.subspan(2), 0.5f);
      shard.count_collected(0.5);
      return;
    case 1:
      shard.flush();
      return;
    case 2:
      shard.keep();
      return;
    case 3:
      shard.restore(static_cast<std::uint32_t>(what));
      return;
    case 4:
      shard.for_evaluator();
      return;
    case 5:
      shard.count_update();
      shard.move_towards(0, all, 0.125f);
      return;
    case 6:
      shard.remember({static_cast<std::uint32_t>(what / 16 % 3)}, 0, all.first(2), {.by = 0.5f});
      shard.remember({static_cast<std::uint32_t>(what / 16 % 3)}, 2, all.subspan(2), {.by = 0.5f});
      shard.apply_remembered(3);
      return;
    case 7:
      shard.forget({static_cast<std::uint32_t>(what / 16 % 3)});
      if (what / 16 % 2 == 0) return shard.turn_memory();
      return shard.remember({0}, 0, all, {.by = 0.25f, .keep = 0.5f, .later = true});
    default: {
      const auto scale = shard.begin_update(2, 0.75);
      shard.apply(0, all.first(3), scale, Shard::Checksum::Compute);
      shard.count_update();
      shard.apply(3, all.subspan(3), scale);
      return;
    }
  }
}

TEST_CASE("a shard made from the state of another goes on with the same bits") {
  for (const OptimizerInfo& info : optimizers()) {
    for (const bool average : {false, true}) {
      CAPTURE(info.name);
      CAPTURE(average);
      ShardOptions setup = options(info.kind, average);
      setup.keeps_initial = true;
      Rng rng(7);
      Shard first(setup, kInitial);
      std::optional<Shard> second;
      for (int i = 0; i < 400; ++i) {
        if (i % 50 == 25) second.emplace(setup, first.state());
        const auto what = rng.next();
        happen(first, what);
        if (!second) continue;
        happen(*second, what);
        CHECK(second->parameters().values() == first.parameters().values());
        CHECK(second->version() == first.version());
        CHECK(second->restores() == first.restores());
      }
      REQUIRE(second);
      CHECK(second->for_evaluator().values() == first.for_evaluator().values());
    }
  }
}

TEST_CASE("a state stays as it is while its shard goes on") {
  const ShardOptions setup = options(OptimizerKind::Momentum, true);
  Rng rng(3);
  Shard shard(setup, kInitial);
  for (int i = 0; i < 50; ++i) happen(shard, rng.next());
  const ShardState state = shard.state();
  const Values parameters = shard.parameters().values();
  const Values evaluated = shard.for_evaluator().values();
  for (int i = 0; i < 50; ++i) happen(shard, rng.next());
  for (int copy = 0; copy < 2; ++copy) {
    Shard from(setup, state);
    CHECK(from.parameters().values() == parameters);
    CHECK(from.for_evaluator().values() == evaluated);
    for (int i = 0; i < 50; ++i) happen(from, rng.next());
  }
}

TEST_CASE("an average follows updates of every kind: applied, elastic and collected") {
  Shard shard(options(OptimizerKind::Sgd, true), kInitial);
  const auto evaluated = [&] { return shard.for_evaluator().values(); };
  shard.count_update();  // the first 20 updates have a share of 1
  shard.apply(0, Values(5, 4), shard.begin_update(1, 1));
  CHECK(shard.parameters().values() == Values{9, 19, 29, 39, 49});
  CHECK(evaluated() == shard.parameters().values());
  shard.count_update();
  shard.move_towards(0, Values(5, 0), 0.5f);
  CHECK(shard.parameters().values() == Values{4.5f, 9.5f, 14.5f, 19.5f, 24.5f});
  CHECK(evaluated() == shard.parameters().values());
  shard.collect(0, Values(5, 4), 1);
  shard.collect(0, Values(5, 2), 1);
  shard.count_collected(2);
  shard.flush();
  CHECK(shard.parameters().values() == Values{3.75f, 8.75f, 13.75f, 18.75f, 23.75f});
  CHECK(evaluated() == shard.parameters().values());
  CHECK(shard.version() == 3);
}

TEST_CASE(
    "the mean of the last updates is applied, whoever is forgotten, and nothing stays behind") {
  Shard shard(options(OptimizerKind::Sgd), kInitial);
  const auto remember = [&](std::uint32_t worker, float value) {
    shard.remember({worker}, 0, Values(2, value), {.by = 0.5f});
    shard.remember({worker}, 2, Values(3, value), {.by = 0.5f});
    const float before = shard.parameters().values()[4];
    shard.apply_remembered(1);
    return before - shard.parameters().values()[4];
  };
  CHECK(remember(0, 8) == 1);      // rate 0.25, weight 0.5: the mean is 8
  CHECK(remember(1, 16) == 1.5f);  // (8 + 16) / 2
  CHECK(remember(0, 0) == 1);
  CHECK(remember(2, 1e9f) > 1e7f);
  shard.forget({2});
  shard.forget({5});  // of whom nothing is remembered
  shard.move_towards(0, kInitial, 1);
  CHECK(remember(1, 16) == 1);
  CHECK(shard.version() == 5);
}

TEST_CASE("what is remembered for later waits for its turn, and running means are blends") {
  Shard shard(options(OptimizerKind::Sgd), kInitial);
  const auto moved = [&] {
    const float before = shard.parameters().values()[4];
    shard.apply_remembered(1);
    return before - shard.parameters().values()[4];
  };
  shard.remember({0}, 0, Values(5, 8), {});
  shard.remember({0}, 0, Values(5, 16), {.by = 0.5f, .keep = 0.5f});
  shard.remember({1}, 0, Values(5, 4), {});
  shard.remember({1}, 0, Values(5, 40), {.later = true});
  CHECK(moved() == 2);  // rate 0.25 of (12 + 4) / 2
  shard.turn_memory();
  CHECK(moved() == 10);
  shard.remember({1}, 0, Values(5, 80), {.later = true});
  shard.forget({1});
  shard.turn_memory();
  CHECK(moved() == 0);
}

TEST_CASE("without an average nothing is kept, but a restore is counted") {
  Shard shard(options(OptimizerKind::Sgd), kInitial);
  shard.apply(0, Values(5, 4), shard.begin_update(1, 1));
  shard.keep();
  shard.keep();
  shard.restore(3);
  CHECK(shard.parameters().values() == Values{9, 19, 29, 39, 49});
  CHECK(shard.restores() == 3);
}

TEST_CASE("a blank shard counts updates and has no values") {
  ShardOptions setup = options(OptimizerKind::Momentum);
  setup.blank = std::make_shared<const Floats>(2);
  Shard shard(setup, 5);
  CHECK(shard.parameters().size() == 5);
  shard.apply(0, {}, shard.begin_update(2, 1));
  shard.count_update();
  shard.collect(0, {}, 1);
  shard.count_collected(1);
  shard.flush();
  shard.remember({0}, 0, {}, {.by = 1});
  shard.apply_remembered(1);
  CHECK(shard.version() == 3);
  CHECK(shard.parameters().values().empty());
}

}  // namespace
}  // namespace rubato::server
