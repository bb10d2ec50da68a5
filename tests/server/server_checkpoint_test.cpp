// A shard that keeps the parameters that were evaluated and goes back to them: what comes back, and
// what is refused because it began at what was given up.
#include <doctest/doctest.h>

#include "proto/compression.hpp"
#include "sync/keeping_gate.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using tests::sent;
using Values = std::vector<float>;

class KeepingShard : public ServerWorld {
 public:
  explicit KeepingShard(ServerSetup setup = {}) : ServerWorld(averaged(std::move(setup))) {
    tell(0);
  }

  // Returns: what an evaluator is given.
  Values evaluate() {
    sent(core);
    hear(pull_of_evaluator());
    Values all;
    for (const auto& out : sent(core)) {
      const auto values = tests::values_of(out.message.payload);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  // The scheduler's list of two members, by which shards hear of orders.
  void keep() { tell(sync::kKeepOrder); }
  void restore() { tell(sync::kRestoreOrder); }
  // Returns: how it was answered.
  std::string answer(std::uint32_t worker, Sequence sequence, std::uint32_t began) {
    sent(core);
    commit(worker, sequence, kOnes, began);
    return replies(sent(core));
  }

 private:
  static ServerSetup averaged(ServerSetup setup) {
    setup.sync = "tempo";
    setup.average = true;
    return setup;
  }
  void tell(std::uint32_t order) {
    proto::Members list{.epoch = ++epoch_,
                        .members = {},
                        .phase = {.number = number_ += order},
                        .evaluator = kEvaluator};
    for (const std::uint32_t worker : {0u, 1u}) list.members.push_back({{worker}, life_of(worker)});
    from_scheduler(std::move(list));
  }

  std::uint64_t epoch_ = 0;
  std::uint32_t number_ = 0;
};

TEST_CASE("checkpoint: what was evaluated comes back, each time, whatever came before the order") {
  KeepingShard shard;
  for (Sequence sequence = 2; sequence < 60; ++sequence) shard.commit(0, sequence, kOnes);
  const Values evaluated = shard.evaluate();
  shard.commit(0, 60, Values(5, 3e38f));
  shard.commit(1, 2, Values(5, 3e38f));
  shard.keep();
  for (std::uint32_t again = 1; again < 4; ++again) {
    shard.restore();
    CHECK(shard.parameters() == evaluated);
    CHECK(shard.evaluate() == evaluated);
    shard.commit(0, 60 + again, kOnes, again);
    CHECK(shard.parameters() != evaluated);
    CHECK(shard.evaluate() != evaluated);  // evaluated, but not kept
  }
}

TEST_CASE("checkpoint: where nothing was kept yet the first parameters come back") {
  KeepingShard shard;
  shard.commit(0, 2, kOnes);
  shard.restore();
  CHECK(shard.parameters() == ServerSetup().initial);
}

// Without held-out data: a low of the training loss says that what is there now is good. The first
// loss is that of whatever the first updates left.
TEST_CASE(
    "checkpoint: where nobody evaluates each order but the first keeps the average as it is") {
  KeepingShard once, shard, evaluated;
  for (KeepingShard* each : {&once, &shard}) {
    each->commit(1, 2, Values(5, 0.0f));
    each->keep();
  }
  evaluated.commit(1, 2, Values(5, 0.0f));
  for (Sequence sequence = 2; sequence < 60; ++sequence)
    for (KeepingShard* each : {&once, &shard, &evaluated}) each->commit(0, sequence, kOnes);
  shard.keep();
  for (KeepingShard* each : {&once, &shard}) {
    each->commit(0, 60, Values(5, 3e38f));
    each->restore();
  }
  CHECK(once.parameters() == ServerSetup().initial);
  CHECK(shard.parameters() != ServerSetup().initial);
  CHECK(shard.parameters() == evaluated.evaluate());
}

// The gate of rounds holds commits: those that it holds began before, too.
TEST_CASE("checkpoint: rounds go back to the initial parameters, and a held commit is refused") {
  ServerSetup setup;
  setup.sync = "adacomm";
  setup.keeps_initial = true;
  ServerWorld shard(setup);
  std::uint64_t epoch = 0;
  const auto tell = [&](std::uint32_t number) {
    proto::Members list{.epoch = ++epoch, .members = {}, .phase = {.number = number}};
    for (const std::uint32_t worker : {0u, 1u}) list.members.push_back({{worker}, life_of(worker)});
    shard.from_scheduler(std::move(list));
  };
  tell(0);
  shard.commit(0, 2, kOnes);
  shard.commit(1, 2, kOnes);
  CHECK(shard.parameters() == Values{8, 18, 28, 38, 48});
  for (std::uint32_t restores = 1; restores < 3; ++restores) {
    shard.commit(0, 1 + 2 * restores, kOnes, restores - 1);
    sent(shard.core);
    tell(restores * sync::kRestoreOrder);
    CHECK(shard.parameters() == setup.initial);
    shard.commit(1, 1 + 2 * restores, kOnes, restores);
    CHECK(replies(sent(shard.core)).find("worker 0: seq") == 0);
    CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
    shard.commit(0, 2 + 2 * restores, kOnes, restores);
    shard.commit(1, 2 + 2 * restores, kOnes, restores);
    CHECK(shard.parameters() == Values{7, 17, 27, 37, 47});
  }
  CHECK(shard.core.stats().commits_refused == 2);
}

TEST_CASE("checkpoint: what began before is refused until its worker has what came back") {
  KeepingShard shard;
  shard.commit(0, 2, kOnes);
  shard.hear(ServerWorld::message(1, proto::Pull{1}));  // a newcomer takes what will be given up
  shard.restore();
  CHECK(shard.answer(0, 3, 0) == "worker 0: seq 3 version 1 refused");
  CHECK(shard.answer(0, 4, 0) == "worker 0: seq 4 version 1 refused");
  CHECK(shard.answer(1, 2, 0) == "worker 1: seq 2 version 1 refused");
  CHECK(shard.parameters() == ServerSetup().initial);
  CHECK(shard.answer(0, 5, 1) == "worker 0: seq 5 version 2");
  CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
  CHECK(shard.core.stats().commits_refused == 3);
}

TEST_CASE("checkpoint: every answer says how often the shard has gone back") {
  KeepingShard shard;
  const auto said = [&](const proto::Message& message) {
    sent(shard.core);
    shard.hear(message);
    const auto out = sent(shard.core);
    REQUIRE_FALSE(out.empty());
    return std::get<proto::Parameters>(out[0].message.body).restores;
  };
  CHECK(said(ServerWorld::message(1, proto::Pull{1})) == 0);
  shard.restore();
  CHECK(said(ServerWorld::message(1, proto::Pull{2})) == 1);
  const auto chunks = shard.chunks(0, 2, kOnes, 1);
  CHECK(said(chunks[0]) == 1);
  shard.restore();
  CHECK(said(chunks[1]) == 2);
  shard.hear(chunks[2]);
  CHECK(said(ServerWorld::message(0, proto::Pull{2})) == 2);
  CHECK(shard.parameters() == ServerSetup().initial);  // half answered: refused from there on
}

TEST_CASE("checkpoint: who is answered with differences is then given all of it") {
  KeepingShard shard({.initial = Values(64, 1.0f), .chunk = 64});
  const auto answer = [&](Sequence sequence, float update, std::uint32_t began) {
    auto message = shard.chunk(0, sequence, 0, Values(64, update), began);
    auto& commit = std::get<proto::Commit>(message.body);
    commit.reply_codec = proto::PayloadCodec::TopK;
    commit.reply_keep = 0.02;
    commit.reply_based = sequence > 2;
    sent(shard.core);
    shard.hear(message);
    const auto out = sent(shard.core);
    REQUIRE(out.size() == 1);
    return out[0].message;
  };
  answer(2, 0, 0);
  CHECK(std::get<proto::Parameters>(answer(3, 1000, 0).body).codec == proto::PayloadCodec::TopK);
  shard.restore();
  const auto back = answer(4, 1000, 0);
  CHECK(std::get<proto::Parameters>(back.body).codec == proto::PayloadCodec::F32);
  CHECK(tests::values_of(back.payload) == Values(64, 1.0f));
}

TEST_CASE("checkpoint: optimizers begin anew") {
  for (const OptimizerKind kind : {OptimizerKind::Momentum, OptimizerKind::Adam}) {
    ServerSetup setup;
    setup.optimizer = {.kind = kind, .momentum = 0.5, .global_rate = 1.0};
    KeepingShard fresh(setup), shard(setup);
    for (Sequence sequence = 2; sequence < 50; ++sequence) shard.commit(0, sequence, kOnes);
    shard.restore();
    for (Sequence sequence = 50; sequence < 53; ++sequence) {
      fresh.commit(0, sequence, kOnes);
      shard.commit(0, sequence, kOnes, 1);
      CHECK(shard.parameters() == fresh.parameters());
    }
  }
}

}  // namespace
}  // namespace rubato::server
