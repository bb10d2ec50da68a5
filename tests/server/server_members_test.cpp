// Members that lie or break, at one shard: commits of another kind, updates of absurd size, updates
// that change after their check, far sequences, parameters that broke, members that others wait
// for. What the scheduler makes of it: tests/scheduler/scheduler_watch_test.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/rng.hpp"
#include "server/update_guard.hpp"
#include "sync/factory.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using proto::RefusedFor;
using tests::bodies;
using tests::sent;
using Values = std::vector<float>;

std::uint64_t refused_for(const ServerWorld& shard, RefusedFor why) {
  return shard.core.stats().refused[static_cast<std::size_t>(why)];
}

std::vector<proto::Message> changed(std::vector<proto::Message> chunks, double weight,
                                    bool elastic) {
  for (auto& chunk : chunks) {
    std::get<proto::Commit>(chunk.body).weight = weight;
    std::get<proto::Commit>(chunk.body).elastic = elastic;
  }
  return chunks;
}

void hear_all(ServerWorld& shard, const std::vector<proto::Message>& chunks) {
  for (const auto& chunk : chunks) shard.hear(chunk);
}

proto::Heartbeat next_heartbeat(ServerWorld& shard) {
  sent(shard.core);
  shard.now = std::max(shard.now, *shard.core.poll_wakeup());
  shard.core.on_wakeup(shard.now);
  const auto beats = bodies<proto::Heartbeat>(sent(shard.core), kSchedulerPeer);
  REQUIRE(beats.size() == 1);
  return beats[0];
}

// The last one, after so many seconds.
proto::Heartbeat heartbeat_after(ServerWorld& shard, double seconds) {
  proto::Heartbeat beat;
  for (const Instant end = shard.now + Duration::from_seconds(seconds); shard.now < end;)
    beat = next_heartbeat(shard);
  return beat;
}

TEST_CASE("a kind of commit that the model does not use is refused, by the traits of its row") {
  for (const auto& model : sync::models()) {
    const auto form = sync::commit_form(model.name, {});
    CAPTURE(model.name);
    CHECK_FALSE(form.allows(!form.elastic, 1));
    CHECK(form.allows(form.elastic, form.elastic ? 0.5 : 1));
    ServerSetup setup;
    setup.sync = model.name;
    setup.form = form;
    ServerWorld shard(setup);
    shard.members(1, {0});
    hear_all(shard, changed(shard.chunks(0, 2, kOnes), 0.5, !form.elastic));
    CHECK(shard.parameters() == setup.initial);
    const std::uint64_t refused =
        model.name == "hero-sgd" ? 0 : 1;  // it does not look at the first one
    CHECK(refused_for(shard, RefusedFor::WrongKind) == refused);
    CHECK(shard.core.stats().commits_refused == refused);
  }
  // A weight where the model has none.
  ServerSetup setup;
  setup.form = sync::commit_form("asp", {});
  ServerWorld shard(setup);
  shard.members(1, {0});
  hear_all(shard, changed(shard.chunks(0, 2, kOnes), 2, false));
  CHECK(refused_for(shard, RefusedFor::WrongKind) == 1);
  shard.commit(0, 3, kOnes);
  CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
}

TEST_CASE("a commit of absurd size is refused, before and after there is a usual one") {
  for (const char* sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    ServerSetup setup;
    setup.sync = sync;
    ServerWorld shard(setup);
    shard.members(1, {0});
    Sequence sequence = 2;
    const auto refused = [&](const std::vector<proto::Message>& chunks) {
      const auto before = shard.parameters();
      const std::uint64_t count = refused_for(shard, RefusedFor::TooLarge);
      sent(shard.core);
      hear_all(shard, chunks);
      CHECK(replies(sent(shard.core)).ends_with("refused"));
      CHECK(shard.parameters() == before);
      CHECK(refused_for(shard, RefusedFor::TooLarge) == count + 1);
    };
    refused(shard.chunks(0, sequence++, Values(5, 1e30f)));
    refused(changed(shard.chunks(0, sequence++, Values(5, 3e38f)), 1e6, false));
    refused(changed(shard.chunks(0, sequence++, Values(5, 1e9f)), 1e6, false));
    // Up to 1,000 times the largest initial parameter.
    refused(shard.chunks(0, sequence++, Values(5, -50'001.0f)));
    shard.commit(0, sequence++, Values(5, 50'000.0f));
    CHECK(shard.core.stats().commits_applied == 1);
    for (int i = 0; i < 40; ++i) shard.commit(0, sequence++, Values(5, 0.1f));
    CHECK(shard.core.stats().commits_applied == 41);
    refused(shard.chunks(0, sequence++, Values(5, 101.0f)));
    shard.commit(0, sequence++, Values(5, 99.0f));
    CHECK(shard.core.stats().commits_applied == 42);
  }
}

TEST_CASE("a compressed commit of absurd size is refused like any other") {
  for (const auto codec :
       {proto::PayloadCodec::Bf16, proto::PayloadCodec::Int8, proto::PayloadCodec::TopK}) {
    ServerWorld shard;
    shard.members(1, {0});
    Values update(2, 1e30f);
    const proto::Compression compression{codec, 0.5};
    std::vector<float> room(16);
    const std::size_t bytes = proto::compressed_bytes(compression, 2);
    proto::Compressor().compress(compression, update,
                                 std::as_writable_bytes(std::span(room)).first(bytes));
    const proto::Commit commit{
        .sequence = 2, .offset = 0, .count = 2, .total = 5, .steps = 1, .codec = codec};
    shard.hear(ServerWorld::message(0, commit, tests::payload_of(room).slice(0, bytes)));
    shard.hear(shard.chunk(0, 2, 2, {1, 1}));
    shard.hear(shard.chunk(0, 2, 4, {1}));
    CAPTURE(proto::codec_name(codec));
    CHECK(refused_for(shard, RefusedFor::TooLarge) == 1);
    CHECK(shard.parameters() == ServerSetup{}.initial);
  }
}

TEST_CASE("without a limit a commit still cannot overflow anything") {
  ServerSetup setup;
  setup.update_limit = 0;
  ServerWorld shard(setup);
  shard.members(1, {0});
  shard.commit(0, 2, Values(5, 1e16f));
  CHECK(refused_for(shard, RefusedFor::TooLarge) == 1);
  shard.commit(0, 3, Values(5, 1e14f));
  CHECK(shard.core.stats().commits_applied == 1);
  hear_all(shard, changed(shard.chunks(0, 4, Values(5, 1e14f)), 1e6, false));
  CHECK(refused_for(shard, RefusedFor::TooLarge) == 2);
}

TEST_CASE("norms: one worker does not move the median alone, however fast it is") {
  UpdateNorms norms(1000, 0.5);
  CHECK(norms.limit() == 1000);
  for (int i = 0; i < 100; ++i) norms.note({0}, 0.01);
  CHECK(norms.limit() == doctest::Approx(10));
  // Each commit at the limit of the moment, ten for one of another worker.
  for (int i = 0; i < 1000; ++i) {
    norms.note({1}, norms.limit());
    if (i % 10 == 0) norms.note({0}, 0.01);
  }
  CHECK(norms.limit() == doctest::Approx(10));
  // Small ones never make it smaller than the parameters.
  for (int i = 0; i < 100; ++i) norms.note({0}, 0);
  for (int i = 0; i < 100; ++i) norms.note({1}, 0);
  CHECK(norms.limit() == 1);
}

TEST_CASE("an update that is changed after its check does not reach the parameters") {
  for (const char* sync : {"asp", "bsp", "fedbuff", "ace", "easgd"}) {
    CAPTURE(sync);
    ServerSetup setup;
    setup.sync = sync;
    setup.chunk = 5;
    ServerWorld shard(setup);
    shard.members(1, {0, 1});
    const bool elastic = sync::commit_form(sync, {}).elastic;
    const double weight = elastic ? 0.5 : 1;
    auto memory = std::make_shared<std::vector<float>>(5, 1.0f);
    auto shared = changed(shard.chunks(0, 2, *memory), weight, elastic);
    shared[0].payload = proto::Payload::of(memory);
    shared[0].payload.set_shared();
    shard.hear(shared[0]);
    if (std::string(sync) != "bsp") continue;  // applied already, from a copy
    std::ranges::fill(*memory, std::numeric_limits<float>::quiet_NaN());
    shard.commit(1, 2, kOnes);
    CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
    CHECK(bodies<proto::Refusal>(sent(shard.core), peer_of(0)).size() == 1);
  }
}

TEST_CASE("update guard: what changes while it is applied is left out from there on") {
  std::vector<float> update(5000, 1.0f);
  UpdateGuard guard{.most = 1};
  std::size_t seen = 0;
  in_checked_pieces(update, &guard, [&](std::size_t at, std::span<const float> piece) {
    CHECK(at == seen);
    for (const float value : piece) CHECK(value == 1.0f);
    seen += piece.size();
    update[at + 2100] = std::numeric_limits<float>::infinity();  // in the next piece
  });
  CHECK(guard.changed);
  CHECK(seen == 2048);
}

TEST_CASE("a far sequence from another peer does not silence a worker") {
  for (const char* sync : {"asp", "bsp"}) {
    ServerSetup setup;
    setup.sync = sync;
    ServerWorld shard(setup);
    shard.members(1, {0});
    shard.hear(ServerWorld::message(0, proto::Pull{7}));
    for (const Sequence far : {Sequence{9}, Sequence{1} << 50}) {
      sent(shard.core);
      hear_all(shard, shard.chunks(0, far, Values(5, 0.0f)));
      CHECK_FALSE(bodies<proto::Refusal>(sent(shard.core), peer_of(0)).empty());
    }
    shard.commit(0, 8, kOnes);
    CHECK(shard.parameters() == Values{9, 19, 29, 39, 49});
    hear_all(shard, shard.chunks(0, Sequence{1} << 50, Values(5, 0.0f)));
    shard.commit(0, 9, kOnes);
    CHECK(shard.parameters() == Values{8, 18, 28, 38, 48});
  }
}

TEST_CASE("the scheduler hears whose commits are refused again and again, and why") {
  ServerWorld shard;
  shard.members(1, {0, 1});
  CHECK(next_heartbeat(shard).standings.empty());
  Sequence sequence = 2;
  for (; sequence < 12; ++sequence) {
    shard.commit(0, sequence, Values(5, 1e30f));
    shard.commit(1, sequence, kOnes);
  }
  const auto told = next_heartbeat(shard).standings;
  REQUIRE(told.size() == 1);
  CHECK(told[0].worker == WorkerId{0});
  CHECK(told[0].incarnation == life_of(0));
  CHECK(told[0].in_a_row == 10);
  CHECK(told[0].others == 10);
  CHECK(told[0].refused == proto::RefusedCounts{0, 10, 0, 0});
  CHECK(told[0].waited == Duration{});
  shard.commit(0, sequence++, kOnes);
  CHECK(next_heartbeat(shard).standings.empty());
  // One more is news, but no row.
  shard.commit(0, sequence++, Values(5, 1e30f));
  CHECK(next_heartbeat(shard).standings.at(0).in_a_row == 1);
  CHECK(next_heartbeat(shard).standings.empty());
}

TEST_CASE("the scheduler hears whom others wait for, how long, and what is usual for it") {
  ServerSetup setup;
  setup.sync = "bsp";
  ServerWorld shard(setup);
  shard.members(1, {0, 1, 2});
  const auto after = [&](double seconds) {
    shard.now = shard.now + Duration::from_seconds(seconds);
  };
  for (Sequence sequence = 2; sequence < 12; ++sequence) {
    after(0.5);
    shard.commit(0, sequence, kOnes);
    shard.commit(1, sequence, kOnes);
    after(1.5);
    shard.commit(2, sequence, kOnes);
  }
  shard.commit(0, 12, kOnes);
  CHECK(next_heartbeat(shard).standings.empty());    // 2 s are nothing
  hear_all(shard, {shard.chunk(2, 12, 0, {1, 1})});  // begun, and never ended
  const auto told = heartbeat_after(shard, 20).standings;
  REQUIRE(told.size() == 2);
  CHECK(told[0].worker == WorkerId{1});
  CHECK(told[0].usual.seconds() == doctest::Approx(0.5));
  CHECK(told[1].worker == WorkerId{2});
  CHECK(told[1].usual.seconds() == doctest::Approx(2.0));
  CHECK(told[1].waiting == 1);
  CHECK(told[1].waited.seconds() == doctest::Approx(22).epsilon(0.1));
  shard.commit(1, 12, kOnes);
  hear_all(shard, {shard.chunk(2, 12, 2, {1, 1}), shard.chunk(2, 12, 4, {1})});
  CHECK(heartbeat_after(shard, 20).standings.empty());  // nobody is held
  CHECK(shard.core.stats().commits_applied == 33);
}

TEST_CASE("a shard that is not to report says no more than before") {
  ServerSetup setup;
  auto options = ServerWorld::options(setup);
  options.reports = false;
  ServerCore core(options, ServerWorld::initial(setup), ServerWorld::gate(setup), kSchedulerPeer);
  core.on_start({0});
  proto::Message welcome;
  welcome.cluster = kCluster;
  welcome.body = proto::Welcome{
      .you = {proto::Role::Server, 0}, .parameters = 5, .range = {0, 5}, .shards = {}};
  core.on_message({0}, kSchedulerPeer, welcome);
  welcome.body = proto::Members{.epoch = 1, .members = {{{0}, life_of(0)}}};
  core.on_message({0}, kSchedulerPeer, welcome);
  const proto::Commit commit{.sequence = 2, .offset = 0, .count = 5, .total = 5, .steps = 1};
  core.on_message({0}, peer_of(0),
                  ServerWorld::message(0, commit, tests::payload_of(Values(5, 1e30f))));
  sent(core);
  core.on_wakeup(*core.poll_wakeup());
  const auto beats = bodies<proto::Heartbeat>(sent(core), kSchedulerPeer);
  REQUIRE(beats.size() == 1);
  CHECK(beats[0].standings.empty());
  CHECK_FALSE(beats[0].broken);
}

// --- parameters that broke -----------------------------------------------------------------------

// Adam without a memory and with an epsilon of 0: an update of 0 makes 0 / 0.
ServerSetup fragile(std::shared_ptr<KeptSnapshots> kept = {}) {
  ServerSetup setup;
  setup.optimizer = {.kind = OptimizerKind::Adam, .global_rate = 1.0};
  setup.optimizer.momentum = setup.optimizer.second_momentum = setup.optimizer.epsilon = 0;
  setup.kept = std::move(kept);
  return setup;
}
const Values kBreaks(5, 0.0f);

TEST_CASE("broken parameters are found when a commit is refused, and the scheduler is told") {
  ServerWorld shard(fragile());
  shard.members(1, {0});
  shard.commit(0, 2, kBreaks);
  REQUIRE(std::isnan(shard.parameters()[0]));
  CHECK_FALSE(next_heartbeat(shard).broken);  // nobody has a reason to look
  shard.commit(0, 3, Values(5, std::numeric_limits<float>::quiet_NaN()));
  CHECK(next_heartbeat(shard).broken);
  CHECK(next_heartbeat(shard).broken);
}

TEST_CASE("a snapshot of broken parameters is never written, and the scheduler is told") {
  auto kept = std::make_shared<KeptSnapshots>();
  ServerWorld shard(fragile(kept));
  shard.members(1, {0});
  shard.from_scheduler(proto::Save{1});
  shard.commit(0, 2, kBreaks);
  shard.from_scheduler(proto::Save{2});
  REQUIRE(kept->size() == 1);
  CHECK(kept->back().info.number == 1);
  const auto warning = shard.core.poll_warning();
  REQUIRE(warning);
  CHECK(*warning == "snapshot 2 is not kept: the parameters are not finite");
  const auto beat = next_heartbeat(shard);
  CHECK(beat.broken);
  CHECK(beat.saved == 1);
}

proto::Members set_back_to(std::uint64_t epoch, std::uint32_t setbacks, std::uint64_t snapshot) {
  return {.epoch = epoch,
          .members = {{{0}, life_of(0) + 1}},
          .phase = {},
          .setbacks = setbacks,
          .back_to = snapshot};
}

proto::Message in_next_life(proto::Message message) {
  ++message.incarnation;
  return message;
}

TEST_CASE("all shards go back: to the snapshot, with the bits that it has, once") {
  auto kept = std::make_shared<KeptSnapshots>();
  ServerWorld shard(fragile(kept));
  shard.members(1, {0});
  shard.commit(0, 2, kOnes);
  const auto good = shard.parameters();
  shard.from_scheduler(proto::Save{1});
  const std::uint64_t commits = shard.core.commits();
  shard.commit(0, 3, kBreaks);
  shard.commit(0, 4, kBreaks);
  shard.from_scheduler(set_back_to(2, 1, 1));
  CHECK(shard.parameters() == good);
  CHECK(shard.core.commits() == commits);
  CHECK(shard.core.poll_log() ==
        "all shards go back: this one to snapshot 1, which holds 1 commit");
  CHECK_FALSE(next_heartbeat(shard).broken);
  // Of the worker's earlier incarnation nothing is taken any more.
  shard.commit(0, 5, kOnes);
  CHECK(shard.parameters() == good);
  // Parameters that are pulled from now on replace whatever the worker made on top of others.
  sent(shard.core);
  shard.hear(in_next_life(ServerWorld::message(0, proto::Pull{6})));
  CHECK(bodies<proto::Parameters>(sent(shard.core), peer_of(0)).at(0).restores == 1);
  for (const auto& chunk : shard.chunks(0, 7, kOnes, 1)) shard.hear(in_next_life(chunk));
  CHECK(shard.parameters() != good);
  const auto later = shard.parameters();
  shard.from_scheduler(set_back_to(3, 1, 1));  // the same one, repeated
  CHECK(shard.parameters() == later);
}

TEST_CASE("all shards go back: without a snapshot to the initial parameters") {
  ServerWorld shard(fragile());
  shard.members(1, {0});
  shard.commit(0, 2, kBreaks);
  shard.from_scheduler(set_back_to(2, 1, 0));
  CHECK(shard.parameters() == ServerSetup{}.initial);
  CHECK_FALSE(shard.core.failure());
}

TEST_CASE("all shards go back: to what the gate keeps, if that is finite") {
  auto setup = fragile();
  setup.sync = "tempo";
  setup.average = true;
  ServerWorld shard(setup);
  shard.members(1, {0});
  shard.commit(0, 2, kOnes);
  const auto evaluated = shard.core.evaluated_parameters();
  REQUIRE(evaluated != setup.initial);
  proto::Members keep{.epoch = 2, .members = {{{0}, life_of(0)}}};
  keep.phase.number = 1;
  shard.from_scheduler(keep);
  shard.commit(0, 3, kBreaks);
  REQUIRE(std::isnan(shard.parameters()[0]));
  shard.from_scheduler(set_back_to(3, 1, 0));
  CHECK(shard.parameters() == evaluated);
}

TEST_CASE("all shards go back: a snapshot that is not there ends the server with a line") {
  ServerWorld shard(fragile(std::make_shared<KeptSnapshots>()));
  shard.members(1, {0});
  shard.from_scheduler(set_back_to(2, 1, 4));
  REQUIRE(shard.core.failure());
  CHECK(shard.core.failure()->message == "scheduler: wants snapshot 4, which is not here");
}

TEST_CASE("a new process is not set back for what happened before it was welcomed") {
  auto kept = std::make_shared<KeptSnapshots>();
  {
    ServerWorld first(fragile(kept));
    first.members(1, {0});
    first.commit(0, 2, kOnes);
    first.from_scheduler(proto::Save{1});
  }
  const auto setup = fragile(kept);
  ServerCore core(ServerWorld::options(setup), ServerWorld::initial(setup),
                  ServerWorld::gate(setup), kSchedulerPeer, ServerWorld::storage(setup));
  core.on_start({0});
  proto::Message message;
  message.cluster = kCluster;
  message.incarnation = 1;
  message.body = proto::Welcome{.you = {proto::Role::Server, 0},
                                .parameters = 5,
                                .range = {0, 5},
                                .shards = {},
                                .snapshot = 1,
                                .setbacks = 2};
  core.on_message({0}, kSchedulerPeer, message);
  message.body = set_back_to(9, 2, 0);
  core.on_message({0}, kSchedulerPeer, message);
  CHECK(core.commits() == 1);
  CHECK(core.parameters() != setup.initial);
}

}  // namespace
}  // namespace rubato::server
