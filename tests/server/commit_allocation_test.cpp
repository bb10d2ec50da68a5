// In the steady state a commit and its reply allocate nothing of ours: worker core, codec, server
// core, and the transport between them, ZeroMQ or shared memory. What libzmq allocates for a
// message is its own: it calls malloc, which is not counted, or operator new, which is told apart
// by the caller's address.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstring>

#include "proto/buffer_pool.hpp"
#include "proto/codec.hpp"
#include "proto/compression.hpp"
#include "proto/shm/transport.hpp"
#include "tests/allocations.hpp"
#include "tests/server/server_world.hpp"
#include "worker/worker_core.hpp"

namespace rubato::server {
namespace {

constexpr std::uint64_t kParameters = 65'000;
constexpr std::uint64_t kChunk = 8192;  // 8 chunks, more than the credit, none of them copied

using worker::WorkerCore;

// As a transport would: encoded, carried, decoded.
struct Direct {
  static proto::Message carried(const proto::Message& message) {
    const proto::Encoded frames = proto::encode(message);
    return proto::decode(frames.control, frames.payload).value();
  }

  // Until neither has more to say.
  static void exchange(ServerWorld& shard, WorkerCore& worker) {
    bool quiet = false;
    while (!quiet) {
      quiet = true;
      while (const auto out = worker.poll_send()) {
        const proto::Message message = carried(out->message);
        if (out->to.role != proto::Role::Server) continue;
        shard.core.on_message(shard.now, peer_of(0), message);
        quiet = false;
      }
      while (const auto out = shard.core.poll_send()) {
        const proto::Message message = carried(out->message);
        worker.on_message(shard.now, message.sender, message);
      }
    }
  }
};

struct OverTransport {
  proto::ShmTransport server, worker;
  proto::PeerId to_server = 0;

  explicit OverTransport(const std::string& host) : server({.host = host}), worker({.host = host}) {
    to_server = worker.connect(server.listen("tcp://127.0.0.1:*").value()).value();
  }

  static void send(proto::ShmTransport& by, proto::PeerId to, const proto::Message& message) {
    const bool sent = by.send(to, message).has_value();
    REQUIRE(sent);
  }

  // Until the whole reply is there.
  void exchange(ServerWorld& shard, WorkerCore& core) {
    for (int turn = 0; core.next_action() == WorkerCore::Action::Wait; ++turn) {
      REQUIRE(turn < 60'000);
      while (const auto out = core.poll_send())
        if (out->to.role == proto::Role::Server) send(worker, to_server, out->message);
      while (const auto received = server.receive(Duration::from_ms(1)).value())
        shard.core.on_message(shard.now, received->from, received->message.value());
      while (const auto out = shard.core.poll_send())
        if (out->to != kSchedulerPeer) send(server, out->to, out->message);
      while (const auto received = worker.receive(Duration::from_ms(1)).value())
        core.on_message(shard.now, received->message->sender, *received->message);
    }
  }
};

template <class Link>
struct Pair {
  ServerWorld shard;
  WorkerCore worker;
  proto::BufferPool updates{kParameters};
  Link link;

  static ServerSetup setup() {
    ServerSetup setup;
    setup.initial.assign(kParameters, 1.0f);
    setup.chunk = kChunk;
    return setup;
  }
  static worker::WorkerOptions options(const proto::Compression& codec) {
    worker::WorkerOptions options;
    options.up = options.down = codec;
    options.cluster = kCluster;
    options.incarnation = life_of(0);
    options.parameters = kParameters;
    options.chunk_bytes = kChunk * sizeof(float);
    return options;
  }

  explicit Pair(const proto::Compression& codec, auto&&... of_link)
      : shard(setup()),
        worker(options(codec), sync::make_commit_rule("asp", {})),
        link{of_link...} {
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
    worker.on_message(shard.now, message.sender, message);
  }

  void exchange() {
    link.exchange(shard, worker);
    REQUIRE(worker.next_action() == WorkerCore::Action::Load);
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
  Pair<Direct> pair({});
  for (int i = 0; i < 3; ++i) pair.commit();
  const std::size_t before = tests::allocations;
  REQUIRE(before > 0);  // they are counted
  for (int i = 0; i < 20; ++i) pair.commit();
  CHECK(tests::allocations == before);
  CHECK(pair.shard.core.version() == 23);
  CHECK(pair.worker.parameters()[999] == 1.0f - 23 * 0.5f);
}

TEST_CASE("steady state: compressed, too") {
  using proto::PayloadCodec;
  for (const proto::Compression& codec :
       {proto::Compression{PayloadCodec::F16}, proto::Compression{PayloadCodec::Bf16},
        proto::Compression{PayloadCodec::Int8}, proto::Compression{PayloadCodec::TopK, 0.01},
        proto::Compression{PayloadCodec::TopK, 1}}) {
    CAPTURE(proto::codec_name(codec.codec));
    Pair<Direct> pair(codec);
    for (int i = 0; i < 4; ++i) pair.commit();
    const std::size_t before = tests::allocations;
    for (int i = 0; i < 20; ++i) pair.commit();
    CHECK(tests::allocations == before);
  }
}

bool is_zmqs(const void* caller) {
  Dl_info where{};
  return dladdr(caller, &where) != 0 && where.dli_fname && std::strstr(where.dli_fname, "libzmq");
}

// Commits until nothing was allocated for a while. Requires: host as of ShmOptions.
void check_transport(const std::string& host) {
  constexpr int kSteady = 20;  // commits one after the other
  // How much is under way at once is up to ZeroMQ's thread: a commit on which there is more than
  // ever before adds to a pool. It has 8 chunks each way, so that ends.
  constexpr int kCommitsMax = 2000;
  Pair<OverTransport> pair({}, host);
  tests::is_foreign = is_zmqs;
  int quiet = 0, commits = 0;
  for (; commits < kCommitsMax && quiet < kSteady; ++commits) {
    const std::size_t before = tests::allocations;
    pair.commit();
    quiet = tests::allocations == before ? quiet + 1 : 0;
  }
  tests::is_foreign = nullptr;
  CHECK(quiet == kSteady);
  CHECK(pair.shard.core.version() == static_cast<Version>(commits));
  MESSAGE("steady after " << commits - kSteady << " commits, libzmq's own allocations counted: "
                          << tests::foreign_allocations.load());
  CHECK(pair.link.worker.shared_memory(pair.link.to_server) == !host.empty());
}

TEST_CASE("steady state: over ZeroMQ, too") {
  check_transport("");
}

TEST_CASE("steady state: and through shared memory") {
  check_transport(proto::shm::host_id());
}

}  // namespace
}  // namespace rubato::server
