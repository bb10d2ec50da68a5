#include "worker/parameter_gather.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "base/rng.hpp"
#include "tests/server/sent.hpp"

namespace rubato::worker {
namespace {

proto::ShardMap shards_of(std::uint64_t parameters, std::uint32_t shards) {
  proto::ShardMap map;
  for (std::uint32_t i = 0; i < shards; ++i)
    map.shards.push_back({proto::shard_range(parameters, i, shards), "somewhere"});
  return map;
}

proto::Parameters chunk(Sequence sequence, std::uint64_t offset, std::uint64_t count,
                        std::uint64_t total) {
  return {.sequence = sequence,
          .version = 1,
          .offset = offset,
          .count = count,
          .total = total,
          .held = {}};
}

TEST_CASE("gather: any order, any chunks, any repeats: every parameter is where it belongs") {
  CHECK(rc::check("gathering chunks", [] {
    const auto parameters = *rc::gen::inRange<std::uint64_t>(1, 60);
    const auto shards = *rc::gen::inRange<std::uint32_t>(1, 7);
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 9);
    const auto map = shards_of(parameters, shards);
    struct Sent {
      std::uint32_t shard;
      proto::Parameters chunk;
      proto::Payload payload;
    };
    std::vector<Sent> all;
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      const auto range = map.shards[shard].range;
      for (std::uint64_t at = 0; at < range.count(); at += size) {
        const auto count = std::min(size, range.count() - at);
        std::vector<float> values;
        for (std::uint64_t i = 0; i < count; ++i)
          values.push_back(static_cast<float>(range.begin + at + i));
        all.push_back({shard, chunk(5, at, count, range.count()), tests::payload_of(values)});
      }
    }
    const std::size_t chunks = all.size();
    for (std::size_t i = 0; i < chunks; i += 2) all.push_back(all[i]);
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    rng.shuffle(std::span(all));

    ParameterGather gather(map);
    gather.begin(5);
    std::size_t completed = 0;
    for (const auto& sent : all) {
      const auto added = gather.add(sent.shard, sent.chunk, sent.payload);
      RC_ASSERT(added.has_value());
      if (*added) {
        ++completed;
        RC_ASSERT(!gather.waiting_for(sent.shard));
      }
    }
    RC_ASSERT(!gather.active());
    RC_ASSERT(completed == std::min<std::size_t>(shards, parameters));
    for (std::size_t i = 0; i < parameters; ++i)
      RC_ASSERT(gather.values()[i] == static_cast<float>(i));
  }));
}

TEST_CASE("gather: arrived is the way without a gap, across shards, and stays where it is") {
  ParameterGather gather(shards_of(8, 2));
  const auto room = std::make_shared<Floats>(8, -1.0f);
  gather.begin(3, room);
  CHECK(gather.arrived() == 0);
  const auto add = [&](std::uint32_t shard, std::uint64_t offset) {
    const auto first = static_cast<float>(shard * 4 + offset);
    REQUIRE(gather.add(shard, chunk(3, offset, 2, 4), tests::payload_of({first, first + 1})));
  };
  add(1, 0);
  CHECK(gather.arrived() == 0);
  add(0, 0);
  CHECK(gather.arrived() == 2);
  const auto before = gather.room();
  gather.leave_room();  // the rest goes elsewhere, what is here is in both
  add(0, 2);
  CHECK(gather.arrived() == 6);
  CHECK(*before == Floats{0, 1, -1, -1, 4, 5, -1, -1});
  CHECK(*gather.room() == Floats{0, 1, 2, 3, 4, 5, -1, -1});
  add(1, 2);
  CHECK(gather.arrived() == 8);
  CHECK_FALSE(gather.active());
}

TEST_CASE("gather: waits for nothing before it begins, and for every shard then") {
  ParameterGather gather(shards_of(4, 2));
  CHECK_FALSE(gather.active());
  gather.begin(1);
  CHECK(gather.active());
  CHECK(gather.waiting_for(0));
  CHECK(gather.waiting_for(1));
  CHECK(gather.add(0, chunk(1, 0, 2, 2), tests::payload_of({1, 2})).value());
  CHECK_FALSE(gather.waiting_for(0));
  CHECK(gather.active());
}

TEST_CASE("gather: chunks of another sequence change nothing") {
  ParameterGather gather(shards_of(2, 1));
  gather.begin(3);
  for (const Sequence other : {Sequence{2}, Sequence{4}})
    CHECK_FALSE(gather.add(0, chunk(other, 0, 2, 2), tests::payload_of({8, 9})).value());
  CHECK(gather.active());
  CHECK(gather.values()[0] == 0);
}

TEST_CASE("gather: what does not fit is corrupt: the shard, its size, the payload") {
  ParameterGather gather(shards_of(4, 2));
  gather.begin(1);
  const auto two = tests::payload_of({1, 2});
  const auto unknown = gather.add(2, chunk(1, 0, 2, 2), two);
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message == "parameters from unknown server 2");
  const auto other_size = gather.add(1, chunk(1, 0, 2, 3), two);
  REQUIRE_FALSE(other_size.has_value());
  CHECK(other_size.error().code == ErrorCode::Corrupt);
  CHECK(other_size.error().message == "server 1 sent 2 of 3 parameters, its shard has 2");
  CHECK_FALSE(gather.add(1, chunk(1, 0, 1, 2), two).has_value());
  CHECK(gather.waiting_for(1));
}

TEST_CASE("gather: remembers a refusal, the last shard's hold and shard 0's version") {
  ParameterGather gather(shards_of(2, 2));
  gather.begin(1);
  auto first = chunk(1, 0, 1, 1);
  first.version = 40;
  first.held = Duration::from_ms(7);
  first.refused = true;
  auto second = chunk(1, 0, 1, 1);
  second.version = 41;
  second.held = Duration::from_ms(9);
  CHECK(gather.add(0, first, tests::payload_of({1})).value());
  CHECK(gather.add(1, second, tests::payload_of({1})).value());
  CHECK(gather.refused());
  CHECK(gather.held() == Duration::from_ms(9));
  CHECK(gather.version() == 40);
  gather.begin(2);
  CHECK_FALSE(gather.refused());
  CHECK(gather.held() == Duration{});
}

}  // namespace
}  // namespace rubato::worker
