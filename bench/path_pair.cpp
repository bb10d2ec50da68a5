#include "bench/path_pair.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <stop_token>

#include "base/time.hpp"
#include "server/peer_loop.hpp"
#include "sync/factory.hpp"

namespace rubato::bench {
namespace {

constexpr std::uint64_t kCluster = 0xbe7c;
constexpr proto::PeerId kNoScheduler = 0;  // transports know it as nobody
constexpr Duration kNever = Duration::from_seconds(1e6);

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "parameter_path: {}\n", result.error().message);
  std::exit(1);
}

proto::Message from_scheduler(proto::Body body) {
  return {.cluster = kCluster,
          .sender = {proto::Role::Scheduler, 0},
          .incarnation = 1,
          .body = std::move(body),
          .payload = {}};
}

proto::JoinTiming quiet() {
  return {.hello_every = kNever, .give_up_after = kNever, .heartbeat_every = kNever};
}

}  // namespace

struct PathServers::Shard {
  proto::ZmqTransport transport;
  server::ServerCore core;
  std::jthread thread;

  Shard(const server::ServerOptions& options, const std::string& sync)
      : core(
            options,
            [](proto::ShardRange range) { return std::vector<float>(range.count(), 1.0f); },
            sync::make_gate(sync, {}), kNoScheduler) {}
  ~Shard() {
    thread.request_stop();
    transport.wake();
  }
};

PathServers::PathServers(std::size_t parameters, std::uint32_t shards, std::uint32_t workers,
                         const std::string& sync) {
  proto::Members members{.epoch = 1, .members = {}};
  for (std::uint32_t i = 0; i < workers; ++i) members.members.push_back({{i}, 1000 + i});
  server::ServerOptions options;
  options.cluster = kCluster;
  options.incarnation = 7;
  options.parameters = parameters;
  options.timing = quiet();
  for (std::uint32_t i = 0; i < shards; ++i) {
    auto shard = std::make_unique<Shard>(options, sync);
    const proto::ShardRange range = proto::shard_range(parameters, i, shards);
    map_.shards.push_back({range, must(shard->transport.listen("tcp://127.0.0.1:*"))});
    const Instant now = steady_now();
    shard->core.on_start(now);
    shard->core.on_message(now, kNoScheduler,
                           from_scheduler(proto::Welcome{.you = {proto::Role::Server, i},
                                                         .parameters = parameters,
                                                         .range = range,
                                                         .shards = {}}));
    shard->core.on_message(now, kNoScheduler, from_scheduler(members));
    while (shard->core.poll_send()) {
    }
    shard->thread = std::jthread([s = shard.get()](std::stop_token stop) {
      if (const auto ran = server::run_core(s->transport, s->core, stop); !ran)
        fmt::print(stderr, "parameter_path: {}\n", ran.error().message);
    });
    shards_.push_back(std::move(shard));
  }
}

PathServers::~PathServers() = default;

PathWorker::PathWorker(const PathServers& servers, std::uint32_t index)
    : core_(
          [&] {
            worker::WorkerOptions options;
            options.cluster = kCluster;
            options.incarnation = 1000 + index;
            options.name = fmt::format("worker-{}", index);
            options.parameters = servers.shards().parameters();
            options.timing = quiet();
            return options;
          }(),
          sync::make_commit_rule("asp", {})) {
  for (const auto& shard : servers.shards().shards)
    peers_.push_back(must(transport_.connect(shard.endpoint)));
  update_ = std::make_shared<const std::vector<float>>(servers.shards().parameters(), 1e-6f);
  core_.on_start(steady_now());
  hear(proto::Welcome{.you = {proto::Role::Worker, index},
                      .parameters = servers.shards().parameters(),
                      .range = {},
                      .shards = servers.shards()});
  hear(proto::Start{});
  flush();
  while (!poll(Duration::from_ms(100))) {
  }
}

void PathWorker::hear(proto::Body body) {
  core_.on_message(steady_now(), from_scheduler(std::move(body)));
}

// What goes to the scheduler has no receiver here.
void PathWorker::flush() {
  while (const auto out = core_.poll_send())
    if (out->to.role == proto::Role::Server)
      must(transport_.send(peers_[out->to.index], out->message));
}

void PathWorker::begin() {
  const Instant now = steady_now();
  core_.on_step(now, {.spent = Duration::from_ms(1), .loss_sum = 1, .samples = 1});
  core_.on_commit(now, {update_, true});  // a trainer tells while it hands the update out
  flush();
}

bool PathWorker::poll(Duration wait) {
  auto received = must(transport_.receive(wait));
  if (received) {
    core_.on_message(steady_now(), must(std::move(received->message)));
    flush();
  }
  if (core_.failure()) must(Result<int>(tl::unexpected<Error>(*core_.failure())));
  if (core_.next_action() != worker::WorkerCore::Action::Load) return false;
  core_.on_loaded(steady_now());
  return true;
}

void PathWorker::round() {
  begin();
  while (!poll(Duration::from_ms(100))) {
  }
}

}  // namespace rubato::bench
