// A shard that remembers its parameters and goes back to them: what comes back, and what is refused
// because it began at what was given up.
#include <doctest/doctest.h>

#include "sync/tempo_gate.hpp"
#include "tests/server/shard.hpp"

namespace rubato::server {
namespace {

using tests::sent;
using Values = std::vector<float>;

const Values kOnes(5, 1.0f);
const Values kInitial = ShardSetup().initial;

// The scheduler's list of two members, by which shards hear of a phase.
void phase(Shard& shard, std::uint64_t epoch, std::uint32_t number) {
  proto::Members list{.epoch = epoch, .members = {}, .phase = number};
  for (const std::uint32_t worker : {0u, 1u}) list.members.push_back({{worker}, life_of(worker)});
  shard.from_scheduler(std::move(list));
}

constexpr std::uint32_t kKeep = sync::next_keep(0);
constexpr std::uint32_t kRestore = sync::next_restore(kKeep);

TEST_CASE("checkpoint: the parameters come back as they were kept, each time") {
  Shard shard({.sync = "tempo"});
  phase(shard, 1, 0);
  shard.commit(0, 2, kOnes);
  phase(shard, 2, kKeep);
  shard.commit(0, 3, kOnes);
  phase(shard, 3, kKeep);  // the same again: a member list
  shard.commit(1, 2, kOnes);
  CHECK(shard.parameters() == Values{7, 17, 27, 37, 47});
  for (std::uint64_t again = 0; again < 3; ++again) {
    phase(shard, 4 + again, kRestore + 2 * static_cast<std::uint32_t>(again));
    CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
    shard.commit(0, 4 + 2 * again, kOnes);  // stale
    shard.commit(0, 5 + 2 * again, kOnes);
    CHECK(shard.parameters() == Values{8, 18, 28, 38, 48});
  }
}

TEST_CASE("checkpoint: a shard that kept none stays as it is") {
  Shard shard({.sync = "tempo"});
  phase(shard, 1, kRestore);  // it joined later than the others
  shard.commit(0, 2, kOnes);
  CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
}

TEST_CASE("checkpoint: a commit that began at what was given up is refused, the next is not") {
  Shard shard({.sync = "tempo"});
  phase(shard, 1, 0);
  shard.commit(0, 2, kOnes);
  phase(shard, 2, kKeep);
  shard.commit(1, 2, kOnes);
  phase(shard, 3, kRestore);
  sent(shard.core);
  shard.commit(0, 3, kOnes);
  CHECK(replies(sent(shard.core)) == "worker 0: seq 3 version 2 refused");
  CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
  shard.commit(0, 4, kOnes);
  CHECK(replies(sent(shard.core)) == "worker 0: seq 4 version 3");
  shard.commit(1, 3, kOnes);
  CHECK(replies(sent(shard.core)) == "worker 1: seq 3 version 3 refused");
  CHECK(shard.parameters() == Values{8, 18, 28, 38, 48});
  CHECK(shard.core.stats().commits_refused == 2);
}

TEST_CASE("checkpoint: a commit that is half answered then is refused, and so is the one after") {
  Shard shard({.sync = "tempo"});
  phase(shard, 1, 0);
  phase(shard, 2, kKeep);
  const auto chunks = shard.chunks(0, 2, kOnes);
  shard.hear(chunks[0]);
  phase(shard, 3, kRestore);
  CHECK(shard.parameters() == kInitial);
  sent(shard.core);
  shard.hear(chunks[1]);
  shard.hear(chunks[2]);
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 0 refused");
  shard.commit(0, 3, kOnes);  // of steps on both
  CHECK(shard.parameters() == kInitial);
  shard.commit(0, 4, kOnes);
  CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
}

TEST_CASE("checkpoint: with an average, it is what is kept and what comes back of both") {
  Shard shard({.sync = "tempo", .average = true});
  const auto evaluated = [&] {
    sent(shard.core);
    auto pull = Shard::message(0, proto::Pull{1});
    pull.sender.role = proto::Role::Evaluator;
    shard.hear(pull);
    Values all;
    for (const auto& out : sent(shard.core)) {
      const auto values = tests::values_of(out.message.payload);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  phase(shard, 1, 0);
  for (Sequence sequence = 2; sequence < 60; ++sequence) shard.commit(0, sequence, kOnes);
  phase(shard, 2, kKeep);
  const Values kept = evaluated();
  CHECK(kept != shard.parameters());
  for (Sequence sequence = 60; sequence < 90; ++sequence) shard.commit(0, sequence, kOnes);
  CHECK(evaluated() != kept);
  phase(shard, 3, kRestore);
  CHECK(shard.parameters() == kept);
  CHECK(evaluated() == kept);
}

TEST_CASE("checkpoint: momentum begins anew") {
  ShardSetup setup{.sync = "tempo"};
  setup.optimizer = {.kind = OptimizerKind::Momentum, .momentum = 0.5, .global_rate = 1.0};
  Shard shard(setup);
  phase(shard, 1, 0);
  phase(shard, 2, kKeep);
  shard.commit(0, 2, kOnes);
  phase(shard, 3, kRestore);
  shard.commit(0, 3, kOnes);  // stale
  shard.commit(0, 4, kOnes);
  CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
}

}  // namespace
}  // namespace rubato::server
