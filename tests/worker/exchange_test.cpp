// One pull and one commit, there and back, without membership, training or a commit rule.
#include "worker/exchange.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "tests/server/sent.hpp"
#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using proto::NodeId;
using proto::Role;

// One server with 4 parameters, in chunks of 2.
struct Pair {
  Instant now{1'000'000'000};
  Mail mail{7, {Role::Worker, 3}, 40};
  Exchange exchange;

  explicit Pair(bool elastic = false)
      : exchange({.codecs = {.up = {}, .down = {}, .parameters = 4},
                  .chunk_bytes = 2 * sizeof(float),
                  .elastic = elastic,
                  .residual = nullptr,
                  .watch = {kSecond * 15, kSecond * 600}}) {
    proto::ShardMap map;
    map.shards.push_back({proto::shard_range(4, 0, 1), "tcp://10.0.0.1:5700"});
    exchange.join_run(1);
    exchange.connect(map);
  }
  Result<bool> hear(proto::Body body, proto::Payload payload = {}) {
    return exchange.on_message(now, 0,
                               {.cluster = 7,
                                .sender = {Role::Server, 0},
                                .incarnation = 1,
                                .body = std::move(body),
                                .payload = std::move(payload)},
                               mail);
  }
  Result<bool> reply(Sequence sequence, float value, Duration held = {}) {
    return hear(proto::Parameters{.sequence = sequence, .count = 4, .total = 4, .held = held},
                tests::payload_of({value, value, value, value}));
  }
  void pulled() {
    exchange.pull(now, mail);
    REQUIRE(mail.poll());
    REQUIRE(reply(1, 5) == true);
  }
  void commit(Exchange::Terms terms = {.steps = 2, .weight = 0.5, .began = 3}) {
    exchange.commit(now, terms, {std::make_shared<Floats>(Floats{1, 2, 3, 4})}, mail);
  }
};

// A worker that lost a reply pulls its parameters again while its commit is under way.
TEST_CASE("exchange: the first commit names the round of the pull before it, and no later one") {
  Pair pair;
  const auto next_round = [&] {
    const auto out = pair.exchange.poll_send(pair.mail);
    REQUIRE(out.has_value());
    return std::get<proto::Commit>(out->message.body).round;
  };
  const auto half = [&](Sequence sequence, std::uint64_t offset, std::uint64_t round) {
    return pair.hear(proto::Parameters{.sequence = sequence,
                                       .offset = offset,
                                       .count = 2,
                                       .total = 4,
                                       .held = {},
                                       .round = round},
                     tests::payload_of({1, 1}));
  };
  pair.exchange.pull(pair.now, pair.mail);
  REQUIRE(half(1, 0, 6) == false);
  REQUIRE(half(1, 2, 5) == true);
  pair.commit();
  CHECK(next_round() == 6);
  REQUIRE(half(2, 0, 9) == false);
  CHECK(next_round() == 6);
  REQUIRE(half(2, 2, 0) == true);
  pair.commit();
  CHECK(next_round() == 0);
}

TEST_CASE("exchange: a pull asks every server, and its reply is the parameters") {
  Pair pair;
  pair.exchange.pull(pair.now, pair.mail);
  CHECK(pair.exchange.active());
  const auto out = pair.mail.poll();
  REQUIRE(out);
  CHECK(std::get<proto::Pull>(out->message.body).sequence == 1);
  CHECK_FALSE(pair.exchange.poll_send(pair.mail));  // nothing is uploaded
  pair.now = pair.now + kSecond;
  CHECK(pair.reply(1, 5) == true);
  CHECK_FALSE(pair.exchange.active());
  CHECK(pair.exchange.reply().round_trip == kSecond);
  CHECK(std::ranges::equal(pair.exchange.parameters(), std::vector<float>{5, 5, 5, 5}));
}

TEST_CASE("exchange: a commit carries its terms on every chunk, and knows what the gate held") {
  Pair pair;
  pair.pulled();
  pair.commit();
  for (const std::uint64_t offset : {0U, 2U}) {
    const auto out = pair.exchange.poll_send(pair.mail);
    REQUIRE(out);
    const auto& chunk = std::get<proto::Commit>(out->message.body);
    CHECK(chunk.sequence == 2);
    CHECK(chunk.offset == offset);
    CHECK(chunk.steps == 2);
    CHECK(chunk.weight == 0.5);
    CHECK(chunk.began == 3);
    CHECK_FALSE(chunk.elastic);
  }
  pair.now = pair.now + kSecond * 3;
  CHECK(pair.reply(2, 6, kSecond) == true);
  CHECK(pair.exchange.reply().held == kSecond);
  CHECK(pair.exchange.reply().overhead() == kSecond * 2);
}

TEST_CASE("exchange: an elastic one takes a mean of what was sent and what came") {
  Pair pair(true);
  pair.pulled();
  pair.commit();
  CHECK(pair.reply(2, 4) == true);
  // With a weight of 0.5 both sides meet in the middle, which the servers answer.
  CHECK(std::ranges::equal(pair.exchange.parameters(), std::vector<float>{4, 4, 4, 4}));
  CHECK(pair.exchange.release() == nullptr);
}

TEST_CASE("exchange: a silent server is asked, then given up with a line that names it") {
  Pair pair;
  pair.pulled();
  pair.commit();
  CHECK(pair.exchange.poll_wakeup() == pair.now + kSecond * 15);
  pair.now = pair.now + kSecond * 15;
  REQUIRE(pair.exchange.on_wakeup(pair.now, pair.mail));
  const auto out = pair.mail.poll();
  REQUIRE(out);
  CHECK(std::get<proto::Probe>(out->message.body).sequence == 2);
  Result<void> waited;
  for (int i = 0; i < 600 && waited; ++i) {
    pair.now = pair.now + kSecond;
    waited = pair.exchange.on_wakeup(pair.now, pair.mail);
  }
  REQUIRE_FALSE(waited);
  CHECK(waited.error().code == ErrorCode::Timeout);
  CHECK(waited.error().message ==
        "server 0 at tcp://10.0.0.1:5700: no answer to commit 2 for 600 s");
}

TEST_CASE("exchange: disconnected, it gives up what is under way and hears nothing") {
  Pair pair;
  pair.pulled();
  pair.commit();
  pair.exchange.disconnect();
  CHECK_FALSE(pair.exchange.active());
  CHECK_FALSE(pair.exchange.shards());
  CHECK(pair.reply(2, 6) == false);
  CHECK_FALSE(pair.exchange.poll_send(pair.mail));
  CHECK_FALSE(pair.exchange.poll_wakeup());
}

}  // namespace
}  // namespace rubato::worker
