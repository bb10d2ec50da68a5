// Averaged elements (running statistics) move towards the values of commits, and nowhere else.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "base/rng.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using Values = std::vector<float>;

// Elements 1 and 3 of five are averaged. A chunk has two elements, one of which is.
ServerSetup averaged_setup(const std::string& sync, OptimizerOptions optimizer = {}) {
  ServerSetup setup;
  setup.sync = sync;
  setup.initial = {0, 8, 0, 4, 0};
  setup.optimizer = optimizer;
  setup.averaged = {{1, 2}, {3, 4}};
  return setup;
}

// `update`: of all elements; where they are averaged, values.
std::vector<proto::Message> commit_of(const ServerWorld& shard, std::uint32_t worker,
                                      Sequence sequence, const Values& update, double weight = 1) {
  std::vector<proto::Message> chunks;
  for (const std::size_t at : {0, 2}) {
    chunks.push_back(shard.chunk(worker, sequence, at, {update[at], update[at + 1]}));
    std::get<proto::Commit>(chunks.back().body).averaged = 1;
  }
  chunks.push_back(shard.chunk(worker, sequence, 4, {update[4]}));
  for (auto& chunk : chunks) std::get<proto::Commit>(chunk.body).weight = weight;
  return chunks;
}

void hear(ServerWorld& shard, const std::vector<proto::Message>& chunks) {
  for (const auto& chunk : chunks) shard.hear(chunk);
}

TEST_CASE("averaged: a streamed commit moves them by a member's part, whatever the optimizer") {
  for (const auto kind : {OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Nesterov,
                          OptimizerKind::DelayedNesterov, OptimizerKind::Adam}) {
    CAPTURE(static_cast<int>(kind));
    ServerWorld shard(averaged_setup("asp", {.kind = kind, .momentum = 0.9, .global_rate = 4}));
    shard.members(1, {0, 1});
    float first = 8, second = 4;
    for (Sequence sequence = 2; sequence < 8; ++sequence) {
      hear(shard, commit_of(shard, 0, sequence, {1, 1, 1, 2, 1}));
      first += (1 - first) / 2;
      second += (2 - second) / 2;
      CHECK(shard.parameters()[1] == doctest::Approx(first));
      CHECK(shard.parameters()[3] == doctest::Approx(second));
      CHECK(shard.parameters()[0] < 0);
    }
  }
}

// The fault that the values are for. Both workers took the variance from 8 to 1 on their own: as
// differences they would make 8 - 7 - 7 of it where each counts whole, and go below zero too where
// many commits were made on old parameters.
TEST_CASE("averaged: any number of commits made on old parameters leave them within the values") {
  for (const char* sync : {"asp", "bsp", "ssp", "adsp", "fedbuff", "rennala", "ace", "local-sgd"}) {
    CAPTURE(std::string(sync));
    ServerSetup setup = averaged_setup(sync);
    setup.staleness = 3;
    ServerWorld shard(setup);
    shard.members(1, {0, 1, 2});
    Rng rng(5);
    for (Sequence sequence = 2; sequence < 40; ++sequence) {
      for (const std::uint32_t worker : {0, 1, 2}) {
        const auto value = static_cast<float>(1 + rng.uniform());
        hear(shard, commit_of(shard, worker, sequence, {0.1f, value, 0, 2, 0}));
        CHECK(shard.parameters()[1] >= 1);
        CHECK(shard.parameters()[1] <= 8);
      }
    }
    CHECK(shard.core.stats().commits_applied > 30);
    CHECK(shard.parameters()[1] < 2.01f);
    CHECK(shard.parameters()[3] == doctest::Approx(2).epsilon(1e-3));
  }
}

TEST_CASE("averaged: a round leaves the weighted mean of its values, in any order of arrival") {
  for (const bool forwards : {true, false}) {
    ServerWorld shard(averaged_setup("bsp"));
    shard.members(1, {0, 1, 2});
    std::vector<std::vector<proto::Message>> commits = {
        commit_of(shard, 0, 2, {3, 1, 0, 2, 0}, 1.5), commit_of(shard, 1, 2, {3, 3, 0, 2, 0}, 1.0),
        commit_of(shard, 2, 2, {3, 11, 0, 5, 0}, 0.5)};
    if (!forwards) std::swap(commits.front(), commits.back());
    for (const auto& commit : commits) hear(shard, commit);
    CHECK(shard.parameters()[1] == doctest::Approx((1.5 * 1 + 3 + 0.5 * 11) / 3));
    CHECK(shard.parameters()[3] == doctest::Approx((1.5 * 2 + 2 + 0.5 * 5) / 3));
    CHECK(shard.parameters()[0] == doctest::Approx(-3));  // the others as before
  }
}

TEST_CASE("averaged: of a round without all members, the shard keeps the part of those who lack") {
  ServerWorld shard(averaged_setup("bsp"));
  shard.members(1, {0, 1, 2});
  hear(shard, commit_of(shard, 0, 2, {0, 2, 0, 4, 0}));
  auto refused = commit_of(shard, 1, 2, {std::numeric_limits<float>::quiet_NaN(), 2, 0, 4, 0});
  hear(shard, refused);
  hear(shard, commit_of(shard, 2, 2, {0, 5, 0, 4, 0}));
  CHECK(shard.parameters()[1] == doctest::Approx((8.0 + 2 + 5) / 3));
}

TEST_CASE("averaged: what is no value is refused, and changes nothing") {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(), 1e20f};
  for (const float value : bad) {
    ServerWorld shard(averaged_setup("bsp"));
    shard.members(1, {0});
    hear(shard, commit_of(shard, 0, 2, {1, value, 1, 2, 1}));
    CHECK(shard.core.stats().commits_refused == 1);
    CHECK(shard.parameters() == Values{0, 8, 0, 4, 0});
  }
  // Large values are no sign of a broken update.
  ServerWorld shard(averaged_setup("bsp"));
  shard.members(1, {0});
  hear(shard, commit_of(shard, 0, 2, {1, 1e12f, 1, 2, 1}));
  CHECK(shard.core.stats().commits_applied == 1);
}

TEST_CASE("averaged: a chunk that has another number of them is refused with one line") {
  ServerWorld shard(averaged_setup("asp"));
  shard.members(1, {0});
  for (const std::uint64_t averaged : {0, 2}) {
    auto chunks = commit_of(shard, 0, 2, {1, 1, 1, 1, 1});
    std::get<proto::Commit>(chunks[0].body).averaged = averaged;
    shard.hear(chunks[0]);
    const auto refusals = tests::bodies<proto::Refusal>(tests::sent(shard.core), peer_of(0));
    REQUIRE(refusals.size() == 1);
    CHECK(refusals[0].message ==
          fmt::format("worker 0 sent {} averaged elements of 2 at element 0; the shard has 1 there",
                      averaged));
  }
  CHECK(shard.parameters() == Values{0, 8, 0, 4, 0});
}

// A shard's elements are those of its range, not the first of the model.
TEST_CASE("averaged: a later shard finds its own") {
  ServerSetup setup = averaged_setup("asp");
  setup.averaged = {{11, 12}, {13, 14}};
  setup.begin = 10;
  ServerWorld shard(setup);
  shard.members(1, {0});
  hear(shard, commit_of(shard, 0, 2, {1, 3, 1, 2, 1}));
  CHECK(shard.parameters()[1] == 3);
  CHECK(shard.parameters()[3] == 2);
}

}  // namespace
}  // namespace rubato::server
