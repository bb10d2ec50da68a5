// In the steady state a commit and its reply allocate nothing of ours: worker core, codec, server
// core. (What libzmq allocates for a message is its own.)
#include <doctest/doctest.h>

#include "proto/buffer_pool.hpp"
#include "proto/codec.hpp"
#include "tests/allocations.hpp"
#include "tests/server/shard.hpp"
#include "worker/worker_core.hpp"

namespace rubato::server {
namespace {

constexpr std::uint64_t kParameters = 1000;
constexpr std::uint64_t kChunk = 64;  // 16 chunks, more than the credit

struct Pair {
  Shard shard;
  worker::WorkerCore worker;
  proto::BufferPool updates{kParameters};

  static ShardSetup setup() {
    ShardSetup setup;
    setup.initial.assign(kParameters, 1.0f);
    setup.chunk = kChunk;
    return setup;
  }
  static worker::WorkerOptions options() {
    worker::WorkerOptions options;
    options.cluster = kCluster;
    options.incarnation = life_of(0);
    options.parameters = kParameters;
    options.chunk_bytes = kChunk * sizeof(float);
    return options;
  }

  Pair() : shard(setup()), worker(options(), sync::make_commit_rule("asp", {})) {
    shard.members(1, {0});
    tests::sent(shard.core);
    worker.on_start(shard.now);
    from_scheduler(proto::Welcome{.you = {proto::Role::Worker, 0},
                                  .parameters = kParameters,
                                  .range = {},
                                  .shards = {{{{0, kParameters}, "somewhere"}}}});
    from_scheduler(proto::Start{});
    exchange();
  }

  void from_scheduler(proto::Body body) {
    proto::Message message;
    message.cluster = kCluster;
    message.body = std::move(body);
    worker.on_message(shard.now, message);
  }

  // As a transport would: encoded, carried, decoded.
  static proto::Message carried(const proto::Message& message) {
    const proto::Encoded frames = proto::encode(message);
    return proto::decode(frames.control, frames.payload).value();
  }

  // Until neither has more to say; then the reply is loaded.
  void exchange() {
    bool quiet = false;
    while (!quiet) {
      quiet = true;
      while (const auto out = worker.poll_send()) {
        const proto::Message message = carried(out->message);
        if (out->to.role != proto::Role::Server) continue;
        shard.core.on_message(shard.now, peer_of(0), message);
        quiet = false;
      }
      while (const auto out = shard.core.poll_send())
        worker.on_message(shard.now, carried(out->message));
    }
    REQUIRE(worker.next_action() == worker::WorkerCore::Action::Load);
    worker.on_loaded(shard.now);
  }

  void commit() {
    worker.on_step(shard.now, {.spent = Duration::from_ms(1), .loss_sum = 1, .samples = 1});
    const auto update = updates.take();
    std::fill(update->begin(), update->end(), 0.5f);
    worker.on_commit(shard.now, {update, true});
    exchange();
  }
};

TEST_CASE("steady state: a commit and its reply allocate nothing") {
  Pair pair;
  for (int i = 0; i < 3; ++i) pair.commit();
  const std::size_t before = tests::allocations;
  REQUIRE(before > 0);  // they are counted
  for (int i = 0; i < 20; ++i) pair.commit();
  CHECK(tests::allocations == before);
  CHECK(pair.shard.core.version() == 23);
  CHECK(pair.worker.parameters()[999] == 1.0f - 23 * 0.5f);
}

}  // namespace
}  // namespace rubato::server
