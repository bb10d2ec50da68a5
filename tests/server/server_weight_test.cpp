// A weighted commit is the commit of weight x U: streamed, held and repeated, in any optimizer.
#include <doctest/doctest.h>

#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using Values = std::vector<float>;

std::vector<proto::Message> weighted(std::vector<proto::Message> chunks, double weight) {
  for (auto& chunk : chunks) std::get<proto::Commit>(chunk.body).weight = weight;
  return chunks;
}

TEST_CASE("weight: a streamed commit moves the parameters by its share, once") {
  ServerWorld shard;
  shard.members(1, {0, 1});
  const auto commit = weighted(shard.chunks(0, 2, {4, 4, 4, 4, 8}), 0.25);
  for (int time = 0; time < 2; ++time)  // the second time is a repeat
    for (const auto& chunk : commit) shard.hear(chunk);
  CHECK(shard.parameters() == Values{9, 19, 29, 39, 48});
  CHECK(shard.core.stats().commits_applied == 1);
}

TEST_CASE("weight: a round of held commits is the weighted sum, whatever the order of arrival") {
  for (const bool forwards : {true, false}) {
    ServerSetup setup;
    setup.sync = "bsp";
    ServerWorld shard(setup);
    shard.members(1, {0, 1});
    const auto first = weighted(shard.chunks(0, 2, Values(5, 4)), 1.5);
    const auto second = weighted(shard.chunks(1, 2, Values(5, 2)), 0.5);
    for (const auto& chunk : forwards ? first : second) shard.hear(chunk);
    for (const auto& chunk : forwards ? second : first) shard.hear(chunk);
    CHECK(shard.parameters() == Values{3, 13, 23, 33, 43});
  }
}

TEST_CASE("weight: every optimizer and path takes weight x U for U, to the bit") {
  for (const auto kind : {OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Nesterov}) {
    for (const char* sync : {"asp", "bsp"}) {
      ServerSetup setup;
      setup.sync = sync;
      setup.optimizer = {.kind = kind, .momentum = 0.75, .global_rate = 0.5};
      ServerWorld by_weight(setup), by_size(setup);
      by_weight.members(1, {0});
      by_size.members(1, {0});
      for (Sequence sequence = 2; sequence < 7; ++sequence) {
        const auto u = static_cast<float>(sequence) * 0.7f;
        for (const auto& c : weighted(by_weight.chunks(0, sequence, Values(5, u)), 0.25))
          by_weight.hear(c);
        by_size.commit(0, sequence, Values(5, 0.25f * u));
      }
      CHECK(by_weight.parameters() == by_size.parameters());
      CHECK(by_weight.parameters() != setup.initial);
    }
  }
}

}  // namespace
}  // namespace rubato::server
