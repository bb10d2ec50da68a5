#include "worker/commit_sender.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace rubato::worker {
namespace {

CommitSender sender_of(const std::vector<std::uint64_t>& shards, std::uint64_t chunk,
                       ShardOrder order = ShardOrder::InTurns) {
  proto::ShardMap map;
  std::uint64_t at = 0;
  for (const auto count : shards) {
    map.shards.push_back({{at, at + count}, "somewhere"});
    at += count;
  }
  return {map, chunk, order};
}

// What may go now: "shard:offset+count ...".
std::string drain(CommitSender& sender) {
  std::string text;
  while (const auto chunk = sender.poll())
    text += fmt::format("{}{}:{}+{}", text.empty() ? "" : " ", chunk->shard, chunk->offset,
                        chunk->count);
  return text;
}

TEST_CASE("commit sender: nothing before an update starts or after it stops") {
  auto sender = sender_of({4}, 2);
  CHECK(drain(sender) == "");
  sender.start();
  CHECK(sender.poll().has_value());
  sender.stop();
  CHECK(drain(sender) == "");
}

TEST_CASE("commit sender: ascending in every shard, the shards in turns") {
  auto sender = sender_of({5, 0, 3}, 2);
  sender.start();
  CHECK(drain(sender) == "0:0+2 2:0+2 0:2+2 2:2+1 0:4+1");
}

TEST_CASE("commit sender: no more than the credit is under way, each shard by itself") {
  static_assert(kCreditChunks == 4);
  auto sender = sender_of({7, 6}, 1);
  sender.start();
  CHECK(drain(sender) == "0:0+1 1:0+1 0:1+1 1:1+1 0:2+1 1:2+1 0:3+1 1:3+1");
  sender.on_answer(1);
  CHECK(drain(sender) == "1:4+1");
  sender.on_answer(1);
  sender.on_answer(0);
  CHECK(drain(sender) == "0:4+1 1:5+1");
  for (int i = 0; i < 9; ++i) sender.on_answer(0);  // repeated answers
  CHECK(drain(sender) == "0:5+1 0:6+1");
}

TEST_CASE("commit sender: what a server lacks goes again, in order, one until an answer comes") {
  auto sender = sender_of({8}, 1);
  sender.start();
  drain(sender);
  sender.on_asked(0);
  SUBCASE("some of it, sent or not") {
    CHECK(sender.on_missing(0, {1, 4, 5, 6, 7, 99}));
    CHECK(drain(sender) == "0:1+1");
    sender.on_answer(0);
    CHECK(drain(sender) == "0:4+1 0:5+1 0:6+1 0:7+1");
  }
  SUBCASE("all of it") {
    CHECK(sender.on_all_missing(0));
    CHECK(drain(sender) == "0:0+1");
    sender.on_answer(0);
    CHECK(drain(sender) == "0:1+1 0:2+1 0:3+1 0:4+1");
  }
  SUBCASE("nothing that was sent") {
    CHECK_FALSE(sender.on_missing(0, {4, 5, 6, 7}));
    CHECK(drain(sender) == "0:4+1 0:5+1 0:6+1 0:7+1");
  }
}

TEST_CASE("commit sender: what goes out after the question is on its way, not lost") {
  auto sender = sender_of({8}, 1);
  sender.start();
  drain(sender);
  sender.on_asked(0);
  sender.on_answer(0);
  sender.on_answer(0);
  CHECK(drain(sender) == "0:4+1 0:5+1");
  CHECK(sender.on_missing(0, {1, 3, 4, 5, 6, 7}));
  CHECK(drain(sender) == "");  // two are under way
  sender.on_answer(0);
  CHECK(drain(sender) == "0:1+1 0:3+1 0:6+1");
  sender.on_asked(0);
  for (int i = 0; i < 4; ++i) sender.on_answer(0);
  CHECK(drain(sender) == "0:7+1");
  CHECK(sender.on_missing(0, {3, 7}));
  CHECK(drain(sender) == "");
  sender.on_answer(0);
  CHECK(drain(sender) == "0:3+1");
  sender.on_asked(0);
  CHECK_FALSE(sender.on_missing(0, {}));
  CHECK(drain(sender) == "");
}

TEST_CASE("commit sender: a chunk that is not sent after all takes no credit") {
  auto sender = sender_of({8}, 1);
  sender.start();
  drain(sender);
  sender.on_asked(0);
  CHECK(sender.on_all_missing(0));
  sender.on_asked(0);
  CHECK(sender.poll()->offset == 0);
  sender.on_dropped(0);
  CHECK_FALSE(sender.on_missing(0, {}));
  CHECK(drain(sender) == "0:4+1 0:5+1 0:6+1 0:7+1");
}

// One that has found out that the least credit is best.
CommitSender narrow_sender(const std::vector<std::uint64_t>& shards) {
  auto sender = sender_of(shards, 1, ShardOrder::ByNeed);
  for (const std::uint32_t credit : {16, 8, 4})
    for (int i = 0; i < 3; ++i) sender.on_commit_over(Duration::from_ms(credit));
  return sender;
}

TEST_CASE("commit sender by need: the first parameters first, whatever shard they are on") {
  auto sender = sender_of({5, 0, 3}, 2, ShardOrder::ByNeed);
  sender.start();
  CHECK(drain(sender) == "0:0+2 0:2+2 0:4+1 2:0+2 2:2+1");
}

TEST_CASE("commit sender by need: one credit for all, and what is needed sooner overtakes") {
  auto sender = narrow_sender({6, 6, 6, 6});
  sender.start();
  CHECK(drain(sender) == "0:0+1 0:1+1 0:2+1 0:3+1");
  CHECK(sender.waits(1));
  sender.on_answer(0);
  sender.on_answer(0);
  CHECK(drain(sender) == "0:4+1 0:5+1 1:0+1");  // the last one of a shard costs no credit
  CHECK_FALSE(sender.waits(1));
  CHECK(sender.waits(2));
  for (int i = 0; i < 4; ++i) sender.on_answer(0);
  CHECK(drain(sender) == "1:1+1 1:2+1 1:3+1");
  sender.on_asked(0);
  sender.on_missing(0, {3, 5});  // before what is left of shard 1, at the next border
  CHECK(drain(sender) == "");
  sender.on_answer(1);
  CHECK(drain(sender) == "0:3+1");
  sender.on_answer(0);
  CHECK(drain(sender) == "0:5+1 1:4+1");
}

TEST_CASE("commit sender by need: shards whose last answers wait for others stop nobody") {
  auto sender = narrow_sender({2, 2, 2, 2, 2, 2, 2});
  sender.start();
  std::string sent;
  // Every chunk but the last of a shard is answered, as under a gate that holds.
  for (std::uint32_t shard = 0; shard < 7; ++shard) {
    sent += drain(sender) + " ";
    sender.on_answer(shard);
  }
  for (int shard = 0; shard < 7; ++shard)
    CHECK_MESSAGE(sent.find(fmt::format("{}:1+1", shard)) != std::string::npos, sent);
}

TEST_CASE(
    "commit sender by need: answers that were lost take no credit from other shards for ever") {
  auto sender = narrow_sender({3, 3, 3, 3});
  sender.start();
  CHECK(drain(sender) == "0:0+1 0:1+1 0:2+1 1:0+1 1:1+1");
  sender.on_held(0);  // asked, it says that it has everything
  CHECK(drain(sender) == "1:2+1 2:0+1 2:1+1");
  sender.on_held(1);
  CHECK(drain(sender) == "2:2+1 3:0+1 3:1+1");
}

TEST_CASE("commit sender by need: on a wide credit every shard has its own four") {
  auto sender = sender_of({7, 6}, 1, ShardOrder::ByNeed);
  sender.start();
  CHECK(drain(sender) == "0:0+1 0:1+1 0:2+1 0:3+1 1:0+1 1:1+1 1:2+1 1:3+1");
  CHECK_FALSE(sender.waits(1));
}

}  // namespace
}  // namespace rubato::worker
