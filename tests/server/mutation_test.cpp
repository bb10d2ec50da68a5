// Frames of members with some of their words changed, as a member that lies would send them:
// through the codec into a scheduler and a shard. Under the sanitizers nothing overflows and
// nothing is read misaligned; in every build nobody trains on what came of it. Seeded: the same
// frames each time.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/checksum.hpp"
#include "base/rng.hpp"
#include "proto/codec.hpp"
#include "tests/proto/samples.hpp"
#include "tests/scheduler/scheduler_world.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

constexpr std::size_t kPrefixBytes = 16;  // docs/protocol.md: the checksum is its last half

void repair(std::vector<std::byte>& control) {
  const std::uint64_t sum = checksum(std::span(control).subspan(kPrefixBytes));
  std::memcpy(control.data() + 8, &sum, sizeof sum);
}

std::vector<std::byte> control_of(const proto::Message& message) {
  const auto encoded = proto::encode(message);
  return {encoded.control.begin(), encoded.control.end()};
}

// Words that have ended programs before.
std::uint64_t nasty(Rng& rng) {
  constexpr std::array<std::uint64_t, 12> kWords{0,
                                                 1,
                                                 ~0ull,
                                                 1ull << 63,
                                                 (1ull << 63) - 1,
                                                 1ull << 62,
                                                 1ull << 31,
                                                 0xffffffffull,
                                                 0x7ff0000000000000ull,  // infinity
                                                 1ull << 53,
                                                 1ull << 48,
                                                 0x7e37e43c8800759cull};  // 1e300
  return kWords[rng.next() % kWords.size()];
}

void mutate(std::vector<std::byte>& control, Rng& rng) {
  for (std::uint64_t times = 1 + rng.next() % 3; times > 0; --times) {
    const std::size_t room = control.size() - kPrefixBytes;
    const std::size_t width = std::size_t{1} << rng.next() % 4;
    if (room < width) continue;
    const std::size_t at = kPrefixBytes + rng.next() % (room - width + 1) / width * width;
    const std::uint64_t word = rng.next() % 4 == 0 ? rng.next() : nasty(rng);
    std::memcpy(control.data() + at, &word, width);
  }
  repair(control);
}

// What a member, a server and an evaluator say.
std::vector<proto::Message> words_of_members() {
  std::vector<proto::Message> all;
  for (const auto& sample : proto::samples::every_message()) {
    for (const auto& sender :
         {std::pair(proto::NodeId{proto::Role::Worker, 0}, scheduler::kZero.incarnation),
          std::pair(proto::NodeId{proto::Role::Worker, 0}, life_of(0)),
          std::pair(proto::NodeId{proto::Role::Server, 0}, Incarnation{70}),
          std::pair(proto::NodeId{proto::Role::Evaluator, 0}, Incarnation{60})}) {
      all.push_back(sample);
      all.back().cluster = kCluster;
      std::tie(all.back().sender, all.back().incarnation) = sender;
    }
  }
  const proto::Commit commit{.sequence = 2, .offset = 0, .count = 5, .total = 5, .steps = 1};
  for (int i = 0; i < 20; ++i)
    all.push_back(ServerWorld::message(0, commit, proto::samples::floats(5)));
  return all;
}

TEST_CASE("mutations: frames whose words lie harm neither the scheduler nor a shard") {
  static_assert(kCluster == scheduler::kClusterId);
  auto options = scheduler::some_options(1, 2);
  options.watch = scheduler::WatchOptions{};
  options.save_every = Duration::from_seconds(30);
  const auto messages = words_of_members();
  Rng rng(17, 0, 0);
  std::size_t decoded = 0, stopped = 0;
  for (int round = 0; round < 40; ++round) {
    scheduler::SchedulerWorld world(options);
    world.start();
    ServerSetup setup;
    setup.sync = round % 2 == 0 ? "asp" : "bsp";
    setup.kept = std::make_shared<KeptSnapshots>();
    ServerWorld shard(setup);
    shard.members(1, {0, 1});
    for (int i = 0; i < 500; ++i) {
      const auto& sample = messages[rng.next() % messages.size()];
      auto control = control_of(sample);
      mutate(control, rng);
      auto message = proto::decode(control, sample.payload);
      if (!message) continue;
      ++decoded;
      const auto from = proto::PeerId{rng.next() % 400};
      world.scheduler.on_message(world.now, from, *message);
      // A server believes its scheduler, which its key tells. What members say is tried here.
      shard.core.on_message(shard.now, std::max<proto::PeerId>(from, 1), *message);
      world.now = shard.now =
          world.now + Duration{static_cast<std::int64_t>(rng.next() % 1'000'000'000)};
      world.scheduler.on_wakeup(world.now);
      shard.core.on_wakeup(shard.now);
      world.collect();
      world.log();
      tests::sent(shard.core);
    }
    stopped += world.scheduler.stopped() ? 1 : 0;
    CHECK(world.scheduler.steps() < 1'000'000'000'000);
    for (const float value : shard.parameters()) CHECK(std::abs(value) < 1e7f);
  }
  CHECK(decoded > 5'000);
  MESSAGE(decoded, " frames were decoded; ", stopped, " of 40 runs ended");
}

// The verifier asks nothing of where the elements of a vector begin, only UBSan does.
TEST_CASE(
    "mutations: vectors and tables that begin elsewhere are read without undefined behaviour") {
  std::size_t decoded = 0;
  for (const auto& sample : proto::samples::every_message()) {
    const auto control = control_of(sample);
    for (std::size_t at = kPrefixBytes; at + 4 <= control.size(); at += 2) {
      for (const std::int32_t by : {4, -4, 1, 2, 8}) {
        auto moved = control;
        std::int32_t word = 0;
        std::memcpy(&word, moved.data() + at, sizeof word);
        word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) +
                                         static_cast<std::uint32_t>(by));
        std::memcpy(moved.data() + at, &word, sizeof word);
        repair(moved);
        decoded += proto::decode(moved, sample.payload).has_value() ? 1 : 0;
      }
    }
  }
  CHECK(decoded > 500);
}

}  // namespace
}  // namespace rubato::server
