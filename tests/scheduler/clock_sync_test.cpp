// The scheduler's clock as nodes with other clocks learn it: questions ride on their messages, the
// real scheduler answers, the network delays both.
#include <doctest/doctest.h>

#include "proto/clock_sync.hpp"
#include "proto/codec.hpp"
#include "scheduler/scheduler.hpp"
#include "tests/server/sent.hpp"

namespace rubato::scheduler {
namespace {

using proto::ClockSync;
using proto::Message;
using proto::Role;

constexpr std::int64_t kMs = 1'000'000;
constexpr proto::PeerId kNode = 7;

SchedulerOptions options(std::uint32_t servers) {
  SchedulerOptions made;
  made.cluster = 1;
  made.parameters = 10;
  made.servers = servers;
  return made;
}

// A server that says Hello, seen from both sides. `ahead`: the scheduler's clock - the node's.
class World {
 public:
  explicit World(Duration ahead) : ahead_(ahead) {}

  // The node sends `body` at its time `now`; what comes back arrives and is read.
  void exchange(Instant now, proto::Body body, Duration there, Duration back) {
    Message message{.cluster = 1,
                    .sender = {Role::Server, 0},
                    .incarnation = 5,
                    .body = std::move(body),
                    .payload = {}};
    node_.on_send(now, message);
    asked_ = message.sent.ns != 0;
    scheduler_.on_message(now + ahead_ + there, kNode, over_the_wire(message));
    answers_ = 0;
    while (const auto out = scheduler_.poll_send()) {
      CHECK(out->to == kNode);
      answers_ += node_.on_message(now + there + back, over_the_wire(out->message)) ? 1 : 0;
    }
  }
  bool asked() const { return asked_; }
  int answers() const { return answers_; }
  const ClockSync& node() const { return node_; }

 private:
  static Message over_the_wire(const Message& message) {
    auto frames = proto::encode(message);
    return proto::decode(frames.control, std::move(frames.payload)).value();
  }

  Duration ahead_;
  Scheduler scheduler_{options(1), nullptr};
  ClockSync node_;
  bool asked_ = false;
  int answers_ = 0;
};

proto::Hello hello() {
  return {"s", 10, "tcp://127.0.0.1:1"};
}

TEST_CASE("clock sync: a node learns the scheduler's clock from its Hello and its heartbeats") {
  const Duration ahead = Duration::from_seconds(-12'345);
  World world(ahead);
  const Instant start{Duration::from_seconds(20'000).ns};
  // The first message waits for the connection: a poor sample.
  world.exchange(start, hello(), {90 * kMs}, {kMs});
  CHECK(world.answers() == 1);
  const auto rough = world.node().estimate(start + Duration{91 * kMs});
  REQUIRE(rough);
  CHECK(rough->error >= Duration{45 * kMs});
  world.exchange(start + Duration{2'000 * kMs}, proto::Heartbeat{}, {kMs}, {kMs});
  const auto fine = world.node().estimate(start + Duration{2'002 * kMs});
  REQUIRE(fine);
  CHECK(fine->offset == ahead);
  CHECK(fine->error == Duration{kMs});
}

TEST_CASE("clock sync: once it knows enough, a node asks twice a second at most") {
  World world(Duration::from_seconds(3));
  std::int64_t now_ms = 1'000;
  for (std::size_t i = 0; i < ClockOffset::kSamplesMax; ++i) {
    world.exchange(Instant{now_ms++ * kMs}, proto::Heartbeat{}, {1'000}, {1'000});
    CHECK(world.answers() == 1);
  }
  int asked = 0;
  for (int i = 0; i < 2'000; ++i) {
    world.exchange(Instant{now_ms++ * kMs}, proto::Heartbeat{}, {1'000}, {1'000});
    asked += world.asked() ? 1 : 0;
  }
  CHECK(asked == 4);
}

TEST_CASE("clock sync: nothing on the way to a server is a question, and no other answer counts") {
  ClockSync sync;
  Message commit{.cluster = 1,
                 .sender = {Role::Worker, 0},
                 .incarnation = 5,
                 .body = proto::Commit{},
                 .payload = {}};
  sync.on_send(Instant{100}, commit);
  CHECK(commit.sent == Instant{});
  const auto answer = [&](proto::Body body) {
    return sync.on_message(Instant{1'000}, {.cluster = 1,
                                            .sender = {Role::Scheduler, 0},
                                            .incarnation = 1,
                                            .body = std::move(body),
                                            .payload = {}});
  };
  CHECK_FALSE(answer(proto::Heartbeat{}));
  CHECK_FALSE(answer(proto::Start{}));
  CHECK_FALSE(answer(proto::Heartbeat{.echo = Instant{1'001}, .clock = Instant{5}}));
  CHECK(answer(proto::Heartbeat{.echo = Instant{1'000}, .clock = Instant{5}}));
}

TEST_CASE("clock sync: the scheduler is silent to whoever does not ask") {
  Scheduler scheduler(options(2), nullptr);
  const Message quiet{
      .cluster = 1, .sender = {Role::Server, 0}, .incarnation = 5, .body = hello(), .payload = {}};
  scheduler.on_message(Instant{5}, kNode, quiet);
  std::vector<std::string> bodies;
  while (const auto out = scheduler.poll_send()) bodies.emplace_back(body_name(out->message.body));
  CHECK(bodies == std::vector<std::string>{"Welcome"});
}

}  // namespace
}  // namespace rubato::scheduler
