// The average that an evaluator is given: its weights in closed form, and who is given what.
#include "server/parameter_average.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "base/rng.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using Values = std::vector<float>;

// What the shard answers to `pull`.
Values pulled(ServerWorld& shard, const proto::Message& pull) {
  tests::sent(shard.core);
  shard.hear(pull);
  Values all;
  for (const auto& out : tests::sent(shard.core)) {
    const Values part = tests::values_of(out.message.payload);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST_CASE("average: commit i of n weighs (20/i) x the product of 1 - 20/j over all later j") {
  Rng rng(4);
  constexpr int kUpdates = 70;
  const Values initial = {1, -2, 3};
  ShardParameters parameters(initial, 2);
  ParameterAverage average(initial, 2);
  Optimizer optimizer({.global_rate = 1.0}, 3);
  std::vector<Values> path;
  for (Version n = 1; n <= kUpdates; ++n) {
    Values update(3);
    for (float& u : update) u = static_cast<float>(rng.normal());
    parameters.apply(optimizer, 0, update, {.rate = 0.1f});
    average.note(0, 3, n);
    average.follow(parameters);
    path.push_back(parameters.values());
    if (n <= 20) CHECK(average.parameters().values()[1] == doctest::Approx(path.back()[1]));
  }
  for (std::size_t element = 0; element < 3; ++element) {
    double expected = 0, weights = 0;
    for (int i = 20; i <= kUpdates; ++i) {
      double weight = 20.0 / i;
      for (int j = i + 1; j <= kUpdates; ++j) weight *= 1 - 20.0 / j;
      weights += weight;
      expected += weight * static_cast<double>(path[static_cast<std::size_t>(i - 1)][element]);
    }
    CHECK(weights == doctest::Approx(1));
    CHECK(average.parameters().values()[element] == doctest::Approx(expected).epsilon(1e-4));
  }
}

TEST_CASE("average: a change is only noted, until there is time to follow it") {
  ShardParameters parameters(Values{1, -2, 3}, 2);
  ParameterAverage average(Values{1, -2, 3}, 2);
  Optimizer optimizer({.global_rate = 1.0}, 3);
  parameters.apply(optimizer, 0, Values{1, 1, 1}, {.rate = 1.0f});
  average.note(0, 3, 1);
  CHECK(average.parameters().values() == Values{1, -2, 3});
  average.follow(parameters);
  CHECK(average.parameters().values() == Values{0, -3, 2});
  parameters.apply(optimizer, 0, Values{1, 1, 1}, {.rate = 1.0f});
  average.follow(parameters);  // nothing was noted
  CHECK(average.parameters().values() == Values{0, -3, 2});
}

TEST_CASE("average: the evaluator's is the same whether or not answers were fetched in between") {
  const auto seen = [](bool fetched) {
    ServerWorld shard({.sync = "tempo", .average = true});
    shard.members(1, {0});
    for (Sequence sequence = 2; sequence < 60; ++sequence) {
      shard.commit(0, sequence, Values(5, 1));
      if (fetched) tests::sent(shard.core);
    }
    return pulled(shard, ServerWorld::pull_of_evaluator());
  };
  CHECK(seen(true).size() == 5);
  CHECK(seen(true) == seen(false));
}

TEST_CASE("average: for the evaluator, not for workers, and chunk by chunk as they change") {
  ServerWorld shard({.sync = "tempo", .average = true});
  shard.members(1, {0});
  for (Sequence sequence = 2; sequence < 60; ++sequence) shard.commit(0, sequence, Values(5, 1));
  CHECK(pulled(shard, ServerWorld::message(0, proto::Pull{1})) == shard.parameters());
  CHECK(shard.parameters() == Values{-48, -38, -28, -18, -8});
  const Values seen = pulled(shard, ServerWorld::pull_of_evaluator());
  REQUIRE(seen.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {  // a mean of the last values: behind, but not by much
    CHECK(seen[i] > shard.parameters()[i] + 1);
    CHECK(seen[i] < shard.parameters()[i] + 4);
  }
  auto pull = ServerWorld::pull_of_evaluator();
  std::get<proto::Pull>(pull.body).latest = true;
  CHECK(pulled(shard, pull) == shard.parameters());
}

}  // namespace
}  // namespace rubato::server
