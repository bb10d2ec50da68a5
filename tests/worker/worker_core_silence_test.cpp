// A worker among silent servers: it asks, repeats or pulls exactly what is missing, or ends with a
// line that says whom it waited for.
#include <doctest/doctest.h>

#include <algorithm>
#include <ranges>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using tests::bodies;

// What `shard` was last asked, silent for as long as that takes.
std::uint32_t ask(WorkerWorld& world, std::uint32_t shard) {
  for (int second = 0; second < 600; ++second) {
    const auto probes = bodies<proto::Probe>(world.sent(), server_node(shard));
    if (!probes.empty()) return probes.back().number;
    world.pass(kSecond);
  }
  FAIL("a silent server is asked");
  return 0;
}

TEST_CASE("scheduler: silent for half the limit it is asked, silent for all of it it is missed") {
  WorldSetup setup;
  setup.forsaken_after = kSecond * 60;
  WorkerWorld world(setup);
  world.get_ready();
  const auto beat = [&](Duration for_so_long) {
    bool asked = false;
    for (const Instant end = world.now + for_so_long; world.now < end;) {
      world.pass(kSecond * 2);
      for (const auto& out : world.sent())
        asked = asked || (out.to == kSchedulerNode && out.message.sent == world.now);
    }
    return asked;
  };
  CHECK_FALSE(beat(kSecond * 28));
  CHECK(beat(kSecond * 4));
  world.hear(kSchedulerNode, proto::Heartbeat{.echo = {1}, .clock = {2}});
  CHECK_FALSE(beat(kSecond * 28));
  CHECK(beat(kSecond * 28));
  CHECK_FALSE(world.core.failure());
  beat(kSecond * 6);
  REQUIRE(world.core.failure());
  CHECK(world.core.failure()->code == ErrorCode::Gone);
  CHECK(world.core.failure()->message ==
        "scheduler: no answer for 60 s; is it running? Restart this node to join its next run");
}

TEST_CASE("scheduler: on virtual time nobody asks for it") {
  WorkerWorld world;
  world.get_ready();
  for (int beats = 0; beats < 1000; ++beats) {
    world.pass(kSecond * 2);
    for (const auto& out : world.sent()) CHECK(out.message.sent == Instant{});
  }
  CHECK_FALSE(world.core.failure());
}

TEST_CASE(
    "silent servers: those that owe an answer for 3 s, and all while the scheduler is silent") {
  using Missed = WorkerCore::Missed;
  using Silent = std::vector<std::pair<std::uint32_t, Missed>>;
  Committed world;
  world.pass(kSecond * 2.9);
  CHECK(world.core.silent_servers(world.now).empty());
  world.pass(kSecond * 0.1);
  CHECK(world.core.silent_servers(world.now) == Silent{{0, Missed::Awaited}, {1, Missed::Awaited}});
  world.reply(1, 2);
  CHECK(world.core.silent_servers(world.now) == Silent{{0, Missed::Awaited}});
  world.hear(kSchedulerNode, proto::Heartbeat{.echo = {1}, .clock = {2}});
  world.pass(kSecond * 2);
  world.pass(kSecond * 2);
  world.pass(kSecond * 2);
  CHECK(world.core.silent_servers(world.now) == Silent{{0, Missed::Awaited}});
  world.pass(kSecond * 0.6);  // 0.1 s of its own lateness is nobody's silence
  CHECK(world.core.silent_servers(world.now) == Silent{{0, Missed::Awaited}, {1, Missed::Alone}});
  world.reply(0, 2);
  CHECK(world.core.silent_servers(world.now) == Silent{{0, Missed::Alone}, {1, Missed::Alone}});
  world.hear(kSchedulerNode, proto::Heartbeat{.echo = {1}, .clock = {2}});
  CHECK(world.core.silent_servers(world.now).empty());
}

TEST_CASE("probe: after fifteen silent seconds, and only the shards that have not answered") {
  Committed world;
  world.reply(1, 2);
  world.pass(kSecond * 14.9);
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).empty());
  world.pass(kSecond * 0.1);
  const auto said = world.sent();
  REQUIRE(bodies<proto::Probe>(said, server_node(0)).size() == 1);
  CHECK(bodies<proto::Probe>(said, server_node(0))[0].sequence == 2);
  CHECK(bodies<proto::Probe>(said, server_node(0))[0].number == 1);
  CHECK(bodies<proto::Probe>(said, server_node(1)).empty());
  world.pass(kSecond);
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).empty());
  world.pass(kSecond * 14);
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).size() == 1);
}

TEST_CASE("probe: the alarm rings for it") {
  Committed world;
  for (int beat = 0; beat < 7; ++beat) world.pass(kSecond * 2);
  CHECK(world.core.poll_wakeup() == world.now + kSecond);
}

TEST_CASE("probe: any chunk of the reply puts it off") {
  Committed world;
  world.now = world.now + kSecond * 14;
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 0, .count = 2, .total = 5, .held = {}},
             tests::payload_of({1, 2}));
  world.pass(kSecond * 2);
  const auto said = world.sent();
  CHECK(bodies<proto::Probe>(said, server_node(0)).empty());
  CHECK(bodies<proto::Probe>(said, server_node(1)).size() == 1);
}

TEST_CASE("probe: asked again every 15 s, until it is answered") {
  Committed world;
  world.reply(1, 2);
  std::vector<int> asked;
  for (int second = 1; second <= 80; ++second) {
    world.pass(kSecond);
    if (!bodies<proto::Probe>(world.sent(), server_node(0)).empty()) asked.push_back(second);
  }
  CHECK(asked == std::vector{15, 30, 45, 60, 75});

  proto::ProbeReply held{.sequence = 2, .held = true, .missing_offsets = {}, .number = 4};
  world.hear(server_node(0), held);  // late: it tells that the server lives, and that is all
  world.pass(kSecond * 9);
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).empty());
  held.number = 5;
  world.hear(server_node(0), held);
  world.pass(kSecond * 15);
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).size() == 1);
}

TEST_CASE("probe: of what is missing, what was given to the transport since is under way") {
  WorldSetup setup = two_shards();
  setup.parameters = 20;
  setup.chunk = 1;
  WorkerWorld world(setup);
  world.get_ready();
  world.step();
  world.commit();
  CHECK(chunk_offsets(world.sent(), 0) == "0 1 2 3");
  const auto number = ask(world, 0);
  const proto::ProbeReply acknowledged{.sequence = 2, .missing_offsets = {}};
  for (int chunk = 0; chunk < 3; ++chunk) world.hear(server_node(0), acknowledged);
  CHECK(chunk_offsets(world.sent(), 0) == "4 5 6");  // the third chunk was lost
  world.hear(
      server_node(0),
      proto::ProbeReply{.sequence = 2, .missing_offsets = {2, 4, 5, 6, 7, 8, 9}, .number = number});
  CHECK(chunk_offsets(world.sent(), 0) == "");  // three are under way
  world.hear(server_node(0), acknowledged);
  CHECK(chunk_offsets(world.sent(), 0) == "2 7");
  for (int chunk = 0; chunk < 4; ++chunk) world.hear(server_node(0), acknowledged);
  CHECK(chunk_offsets(world.sent(), 0) == "8 9");
}

TEST_CASE("probe: of an answered commit exactly the chunks that have not come are pulled, once") {
  Committed world;
  world.reply(1, 2);
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 2, .count = 2, .total = 5, .held = {}},
             tests::payload_of({1, 2}));
  const auto number = ask(world, 0);
  const proto::ProbeReply answered{
      .sequence = 2, .missing_offsets = {}, .answered = true, .number = number};
  world.hear(server_node(0), answered);
  world.hear(server_node(0), answered);
  const auto said = world.sent();
  REQUIRE(said.size() == 1);
  CHECK(std::get<proto::Pull>(said[0].message.body).sequence == 2);
  CHECK(std::get<proto::Pull>(said[0].message.body).offsets == std::vector<std::uint64_t>{0, 4});
}

TEST_CASE("probe: exactly the missing chunks are sent again, all when none arrived") {
  Committed world;
  proto::ProbeReply answer;
  answer.sequence = 2;
  answer.number = ask(world, 1);
  REQUIRE(answer.number == 1);
  answer.missing_offsets = {2};
  world.hear(server_node(1), answer);
  auto said = world.sent();
  REQUIRE(said.size() == 1);
  const auto& again = std::get<proto::Commit>(said[0].message.body);
  CHECK(again.sequence == 2);
  CHECK(again.offset == 2);
  CHECK(again.count == 2);
  CHECK(again.steps == 1);
  CHECK(tests::values_of(said[0].message.payload) == std::vector<float>{7, 8});

  answer.missing_offsets.clear();
  answer.unknown = true;
  world.hear(server_node(0), answer);
  said = world.sent();
  CHECK(chunk_offsets(said, 0) == "0");  // the others once something is heard of it
  CHECK(chunk_offsets(said, 1) == "");
  world.hear(server_node(0), answer);  // twice: on its way already
  CHECK(world.sent().empty());
  world.hear(server_node(0), proto::ProbeReply{.sequence = 2, .missing_offsets = {}});
  CHECK(chunk_offsets(world.sent(), 0) == "2 4");
}

TEST_CASE("a lent update: its answers take its place, chunk by chunk, and it comes back") {
  WorldSetup setup = two_shards();
  setup.lend = true;
  WorkerWorld world(setup);
  world.get_ready();
  world.step();
  world.commit();
  const auto said = world.sent();
  const auto first = std::find_if(said.begin(), said.end(), [](const proto::ToNode& out) {
    return out.to == server_node(0) && std::holds_alternative<proto::Commit>(out.message.body);
  });
  REQUIRE(first != said.end());
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 0, .count = 2, .total = 5, .held = {}},
             tests::payload_of({50, 51}));
  CHECK(tests::values_of(first->message.payload) == std::vector<float>{50, 51});
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 2, .count = 3, .total = 5, .held = {}},
             tests::payload_of({52, 53, 54}));
  world.reply(1, 2, 7);
  world.load();
  const std::vector<float> expected{50, 51, 52, 53, 54, 7, 7, 7, 7, 7};
  CHECK(std::ranges::equal(world.core.parameters(), expected));
  const auto back = world.core.release_parameters();
  REQUIRE(back != nullptr);
  CHECK(std::ranges::equal(*back, expected));
  CHECK(reinterpret_cast<const std::byte*>(back->data()) == first->message.payload.bytes().data());
  CHECK(world.core.parameters().empty());
}

TEST_CASE("a lent update: what is sent again is the update, and what was answered is not sent") {
  WorldSetup setup = two_shards();
  setup.lend = true;
  WorkerWorld world(setup);
  world.get_ready();
  world.step();
  world.commit();
  world.sent();
  world.hear(server_node(1),
             proto::Parameters{.sequence = 2, .offset = 4, .count = 1, .total = 5, .held = {}},
             tests::payload_of({90}));
  proto::ProbeReply answer;
  answer.sequence = 2;
  answer.number = ask(world, 1);
  // It knows the last chunk only, which does not tell the size of the others.
  answer.unknown = true;
  world.hear(server_node(1), answer);
  auto said = world.sent();
  CHECK(chunk_offsets(said, 1) == "0");
  CHECK(tests::values_of(said[0].message.payload) == std::vector<float>{5, 6});
  // It may still be under way when an earlier copy is answered.
  world.hear(server_node(1),
             proto::Parameters{.sequence = 2, .offset = 0, .count = 2, .total = 5, .held = {}},
             tests::payload_of({91, 92}));
  CHECK(chunk_offsets(world.sent(), 1) == "2");
  CHECK(tests::values_of(said[0].message.payload) == std::vector<float>{5, 6});
  world.hear(server_node(1),
             proto::Parameters{.sequence = 2, .offset = 2, .count = 2, .total = 5, .held = {}},
             tests::payload_of({93, 94}));
  world.reply(0, 2, 7);
  world.load();
  CHECK(std::ranges::equal(world.core.parameters(),
                           std::vector<float>{7, 7, 7, 7, 7, 91, 92, 93, 94, 90}));
}

TEST_CASE("probe: what is held, another commit's, out of range or no longer awaited: no answer") {
  Committed world;
  proto::ProbeReply held;
  held.sequence = 2;
  held.held = true;
  held.number = ask(world, 0);
  world.hear(server_node(0), held);
  proto::ProbeReply old;
  old.sequence = 1;
  old.unknown = true;
  world.hear(server_node(0), old);
  proto::ProbeReply outside;
  outside.sequence = 2;
  outside.number = ask(world, 0);
  outside.missing_offsets = {5, 1'000'000};
  world.hear(server_node(0), outside);
  world.reply(0, 2);
  proto::ProbeReply late;
  late.sequence = 2;
  late.unknown = true;
  late.number = outside.number;
  world.hear(server_node(0), late);
  CHECK(world.sent().empty());
  CHECK_FALSE(world.core.failure().has_value());
}

TEST_CASE("probe: a pull that got lost is pulled again") {
  WorkerWorld world;
  world.join();
  world.sent();
  proto::ProbeReply unknown;
  unknown.sequence = 1;
  unknown.unknown = true;
  unknown.number = ask(world, 0);
  SUBCASE("all of it") {
    world.hear(server_node(0), unknown);
    const auto said = bodies<proto::Pull>(world.sent(), server_node(0));
    REQUIRE(said.size() == 1);
    CHECK(said[0].sequence == 1);
    CHECK(said[0].offsets.empty());
  }
  SUBCASE("what has not come of it") {
    world.hear(server_node(0),
               proto::Parameters{.sequence = 1, .offset = 2, .count = 2, .total = 5, .held = {}},
               tests::payload_of({1, 2}));
    world.hear(server_node(0), unknown);
    const auto said = bodies<proto::Pull>(world.sent(), server_node(0));
    REQUIRE(said.size() == 1);
    CHECK(said[0].offsets == std::vector<std::uint64_t>{0, 4});
  }
}

TEST_CASE("timeout: a server that answers is waited for, however long its gate holds") {
  Committed world;
  world.reply(1, 2);
  proto::ProbeReply held;
  held.sequence = 2;
  held.held = true;
  for (int i = 0; i < 100; ++i) {
    world.pass(kSecond * 15);
    const auto probes = bodies<proto::Probe>(world.sent(), server_node(0));
    REQUIRE(probes.size() == 1);
    held.number = probes[0].number;
    world.hear(server_node(0), held);
  }
  CHECK_FALSE(world.core.failure().has_value());
  world.reply(0, 2, 0, kSecond * 1499);
  world.load();
  CHECK(world.core.progress().wait == kSecond * 1499);
}

TEST_CASE("timeout: a silent server ends it with the server, its endpoint and the operation") {
  Committed world;
  world.reply(0, 2);
  for (int i = 0; i < 39; ++i) world.pass(kSecond * 15);
  CHECK(world.core.next_action() == Action::Wait);
  CHECK(world.core.poll_log() ==
        "server 1 at tcp://10.0.0.1:5700: no answer to commit 2 for 150 s, waits for up to 600 s");
  CHECK_FALSE(world.core.poll_log().has_value());
  world.pass(kSecond * 15);
  CHECK(world.core.next_action() == Action::Fail);
  REQUIRE(world.core.failure().has_value());
  CHECK(world.core.failure()->code == ErrorCode::Timeout);
  CHECK(world.core.failure()->message ==
        "server 1 at tcp://10.0.0.1:5700: no answer to commit 2 for 600 s");

  WorkerWorld pulling;
  pulling.join();
  for (int i = 0; i < 40; ++i) pulling.pass(kSecond * 15);
  REQUIRE(pulling.core.failure().has_value());
  CHECK(pulling.core.failure()->message ==
        "server 0 at tcp://10.0.0.0:5700: no answer to pull 1 for 600 s");
}

TEST_CASE("timeout: a worker that was away itself asks again before it blames the server") {
  Committed world;
  world.pass(kSecond * 1000);  // a frozen machine, and the answers wait in the sockets
  CHECK_FALSE(world.core.failure().has_value());
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).size() == 1);
  for (int i = 0; i < 38; ++i) world.pass(kSecond * 15);
  CHECK_FALSE(world.core.failure().has_value());
  world.pass(kSecond * 15);
  CHECK(world.core.failure().has_value());
}

TEST_CASE("timeout: what a link has been seen to take is no reason to give a server up") {
  Committed world;
  world.reply(1, 2);
  const auto wait = [&](int seconds) {
    for (int i = 0; i < seconds / 15; ++i) world.pass(kSecond * 15);
  };
  wait(585);
  world.reply(0, 2);
  REQUIRE_FALSE(world.core.failure().has_value());
  CHECK(world.core.poll_log().has_value());
  world.load();
  world.step();
  world.commit();
  world.reply(1, 3);
  wait(4 * 585 - 15);
  REQUIRE_FALSE(world.core.failure().has_value());
  CHECK(world.core.poll_log() ==
        "server 0 at tcp://10.0.0.0:5700: no answer to commit 3 for 1170 s, waits for up to "
        "2340 s");
  wait(15);
  REQUIRE(world.core.failure().has_value());
  CHECK(world.core.failure()->message ==
        "server 0 at tcp://10.0.0.0:5700: no answer to commit 3 for 2340 s");
}

TEST_CASE("timeout: time that a worker was away itself is no silence that a link can take") {
  Committed world;
  world.reply(1, 2);
  world.now = world.now + kSecond * 5000;  // and reads its socket before its clock
  world.reply(0, 2);
  world.load();
  world.step();
  world.commit();
  world.reply(1, 3);
  for (int i = 0; i < 40; ++i) world.pass(kSecond * 15);
  CHECK(world.core.failure().has_value());
}

TEST_CASE("timeout: a scheduler that never answers ends it, one that dies later does not") {
  WorkerWorld alone;
  alone.core.on_start(alone.now);
  for (int i = 0; i < 59; ++i) alone.pass(kSecond);
  CHECK_FALSE(alone.core.failure().has_value());
  alone.pass(kSecond);
  REQUIRE(alone.core.failure().has_value());
  CHECK(alone.core.failure()->code == ErrorCode::Timeout);

  WorkerWorld orphan;
  orphan.get_ready();
  for (Sequence sequence = 2; sequence < 50; ++sequence) {
    orphan.pass(kSecond * 10);
    orphan.step();
    orphan.commit();
    orphan.replies(sequence);
    orphan.load();
  }
  CHECK(orphan.core.next_action() == Action::Train);
}

// Six quick commits, and one whose answer does not come.
struct Unanswered : WorkerWorld {
  explicit Unanswered(sync::Overlap overlap) : WorkerWorld(with(overlap)) {
    get_ready();
    for (; next < 8; ++next) {
      step();
      commit();
      pass(Duration::from_ms(2));
      replies(next);
      load();
    }
    step();
    commit();
    sent();
  }
  static WorldSetup with(sync::Overlap overlap) {
    WorldSetup setup;
    setup.overlap = overlap;
    return setup;
  }
  // Returns: the questions of the next wake-up.
  std::vector<proto::Probe> wake() {
    now = std::max(now, *core.poll_wakeup());
    core.on_wakeup(now);
    return tests::bodies<proto::Probe>(sent(), server_node(0));
  }

  Sequence next = 2;  // of the commit
};

TEST_CASE("silence: a worker that may overlap trains on once a server is away, and loads as ever") {
  for (const auto overlap : {sync::Overlap::WhenAway, sync::Overlap::UnlessQuick}) {
    Unanswered world(overlap);
    const Instant began = world.now;
    std::size_t questions = 0;
    while (world.core.next_action() == Action::Wait) {
      questions += world.wake().size();
      REQUIRE(questions <= 2);
    }
    CHECK(questions == 2);
    CHECK(world.now - began < Duration::from_seconds(2));
    CHECK(world.core.next_action() == Action::Train);
    const Duration communicated = world.core.progress().communicate;
    CHECK(communicated >= world.now - began);
    world.step();
    world.step();
    CHECK(world.core.next_action() == Action::Train);  // the rule has asked: one commit in flight
    world.replies(world.next);
    world.load();
    CHECK(world.core.progress().communicate == communicated);
    CHECK(world.core.progress().commits == 7);
    // The next one is waited for again, unless commits are slow now.
    world.commit();
    CHECK((world.core.next_action() == Action::Wait) == (overlap == sync::Overlap::WhenAway));
  }
}

TEST_CASE("silence: who may not overlap waits, and so does who hears that the server has it") {
  Unanswered never(sync::Overlap::Never);
  for (int i = 0; i < 20; ++i) never.wake();
  CHECK(never.core.next_action() == Action::Wait);
  Unanswered heard(sync::Overlap::WhenAway);
  for (int i = 0; i < 20; ++i)
    for (const auto& probe : heard.wake())
      heard.hear(
          server_node(0),
          proto::ProbeReply{
              .sequence = heard.next, .held = true, .missing_offsets = {}, .number = probe.number});
  CHECK(heard.core.next_action() == Action::Wait);
}

}  // namespace
}  // namespace rubato::worker
