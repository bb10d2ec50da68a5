#include "bench/path_pair.hpp"

#include <fmt/core.h>

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <stop_token>

#include "base/time.hpp"
#include "cluster/node_loop.hpp"
#include "proto/key_files.hpp"
#include "proto/zmq_curve.hpp"
#include "server/file_storage.hpp"
#include "sync/factory.hpp"

namespace rubato::bench {
namespace {

constexpr proto::PeerId kNoScheduler = 0;  // transports know it as nobody
constexpr Duration kNever = Duration::from_seconds(1e6);

// The value; an error ends the program.
template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "parameter_path: {}\n", result.error().message);
  std::exit(1);
}

proto::Message from_scheduler(proto::Body body) {
  return {.cluster = kPathCluster,
          .sender = {proto::Role::Scheduler, 0},
          .incarnation = 1,
          .body = std::move(body),
          .payload = {}};
}

proto::Message welcome(std::uint32_t worker, const proto::ShardMap& shards) {
  return from_scheduler(proto::Welcome{.you = {proto::Role::Worker, worker},
                                       .parameters = shards.parameters(),
                                       .range = {},
                                       .shards = shards});
}

// Keys of one server and of all workers of this process.
class BenchKeys {
 public:
  BenchKeys() {
    std::string name = (std::filesystem::temp_directory_path() / "rubato-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::exit(1);
    place_ = name;
    server_ = make(proto::Role::Server, "server", {});
    worker_ = make(proto::Role::Worker, "worker", server_->own.public_key);
    const proto::SecretKey key{worker_->own, worker_->secret_key};
    must(proto::write_key_files(place_, key).map([] { return 0; }));
    must(proto::authorize(place_, proto::public_file(place_, "worker")));
  }
  ~BenchKeys() { std::filesystem::remove_all(place_); }
  BenchKeys(const BenchKeys&) = delete;
  BenchKeys& operator=(const BenchKeys&) = delete;

  const std::shared_ptr<const proto::Keys>& server() const { return server_; }
  const std::shared_ptr<const proto::Keys>& worker() const { return worker_; }

 private:
  std::shared_ptr<const proto::Keys> make(proto::Role role, const std::string& name,
                                          const std::string& known) const {
    auto pair = proto::make_curve_pair();
    const std::string scheduler = known.empty() ? pair.public_key : known;
    return std::make_shared<const proto::Keys>(
        proto::Keys{.own = {role, name, std::move(pair.public_key)},
                    .secret_key = std::move(pair.secret_key),
                    .scheduler = scheduler,
                    .authorized = proto::authorized_directory(place_).string()});
  }

  std::filesystem::path place_;
  std::shared_ptr<const proto::Keys> server_, worker_;
};

const BenchKeys& bench_keys() {
  static const BenchKeys keys;
  return keys;
}

proto::ShmOptions transport_options(Wire wire, bool server) {
  proto::ShmOptions options;
  if (wire != Wire::SharedMemory) options.host.clear();
  if (wire == Wire::Curve) options.keys = server ? bench_keys().server() : bench_keys().worker();
  return options;
}

proto::JoinTiming quiet() {
  return {.hello_every = kNever, .give_up_after = kNever, .heartbeat_every = kNever};
}

}  // namespace

struct PathServers::Shard {
  proto::ShmTransport transport;
  server::ServerCore core;
  std::jthread thread;

  Shard(const server::ServerOptions& options, const std::string& sync, Wire wire,
        const std::string& state)
      : transport(transport_options(wire, true)),
        core(
            options, [](ElementRange range) { return std::vector<float>(range.count(), 1.0f); },
            sync::make_gate(sync, {}), kNoScheduler, storage(options, state)) {}
  std::unique_ptr<server::Storage> storage(const server::ServerOptions& options,
                                           const std::string& state) {
    if (state.empty()) return nullptr;
    return must(server::open_storage({.directory = state,
                                      .server = options.name,
                                      .cluster = kPathCluster,
                                      .journal = true,
                                      .wake = [this] { transport.wake(); }}));
  }
  ~Shard() {
    thread.request_stop();
    transport.wake();
  }
};

PathServers::PathServers(std::size_t parameters, std::uint32_t shards, std::uint32_t workers,
                         const std::string& sync, Wire wire, const std::string& state) {
  proto::Members members{.epoch = 1, .members = {}};
  for (std::uint32_t i = 0; i < workers; ++i) members.members.push_back({{i}, 1000 + i});
  server::ServerOptions options;
  options.cluster = kPathCluster;
  options.incarnation = 7;
  options.parameters = parameters;
  options.timing = quiet();
  for (std::uint32_t i = 0; i < shards; ++i) {
    options.name = fmt::format("server-{}", i);
    options.journal = !state.empty();
    auto shard = std::make_unique<Shard>(options, sync, wire, state);
    const ElementRange range = proto::shard_range(parameters, i, shards);
    map_.shards.push_back({range, must(shard->transport.listen("tcp://127.0.0.1:*")),
                           wire == Wire::Curve ? bench_keys().server()->own.public_key : ""});
    const Instant now = steady_now();
    shard->core.on_start(now);
    shard->core.on_message(now, kNoScheduler,
                           from_scheduler(proto::Welcome{.you = {proto::Role::Server, i},
                                                         .parameters = parameters,
                                                         .range = range,
                                                         .shards = {}}));
    shard->core.on_message(now, kNoScheduler, from_scheduler(members));
    if (options.journal) shard->core.on_message(now, kNoScheduler, from_scheduler(proto::Save{1}));
    while (shard->core.poll_send()) {
    }
    shard->thread = std::jthread([s = shard.get()](std::stop_token stop) {
      cluster::NodeLoop loop(s->transport, s->core);
      if (const auto ran = loop.run(stop); !ran)
        fmt::print(stderr, "parameter_path: {}\n", ran.error().message);
    });
    shards_.push_back(std::move(shard));
  }
}

PathServers::~PathServers() = default;

worker::WorkerOptions path_worker_options(const proto::ShardMap& shards, std::uint32_t index) {
  worker::WorkerOptions options;
  options.cluster = kPathCluster;
  options.incarnation = 1000 + index;
  options.name = fmt::format("worker-{}", index);
  options.parameters = shards.parameters();
  return options;
}

PathScheduler::PathScheduler(const PathServers& servers)
    : transport_(transport_options(Wire::Tcp, true)),
      endpoint_(must(transport_.listen("tcp://127.0.0.1:*"))),
      thread_([this, shards = servers.shards()](std::stop_token stop) { serve(shards, stop); }) {}

PathScheduler::~PathScheduler() {
  thread_.request_stop();
  transport_.wake();
  thread_.join();
}

void PathScheduler::serve(const proto::ShardMap& shards, std::stop_token stop) {
  while (!stop.stop_requested()) {
    const auto received = must(transport_.receive(Duration::from_ms(100)));
    if (!received || !std::holds_alternative<proto::Hello>(must(received->message).body)) continue;
    must(transport_.send(received->from, welcome(0, shards)));
    must(transport_.send(received->from, from_scheduler(proto::Start{})));
  }
}

PathWorkers::PathWorkers(const proto::ShardMap& shards, std::uint32_t first, std::uint32_t count,
                         Wire wire)
    : transport_(transport_options(wire, false)),
      shards_(shards.shards.size()),
      update_(std::make_shared<const Floats>(shards.parameters(), 1e-6f)) {
  cores_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    // The transport numbers connections from 1: worker i has i * shards + 1 and on.
    for (const auto& shard : shards.shards)
      must(transport_.connect(shard.endpoint, shard.public_key));
    auto options = path_worker_options(shards, first + i);
    options.timing = quiet();
    auto& core = cores_.emplace_back(options, sync::make_commit_rule("asp", {}));
    core.on_start(steady_now());
    core.on_message(steady_now(), {proto::Role::Scheduler}, welcome(first + i, shards));
    core.on_message(steady_now(), {proto::Role::Scheduler}, from_scheduler(proto::Start{}));
    flush(i);
  }
  busy_ = count;
  finish();
}

// What goes to the scheduler has no receiver here.
void PathWorkers::flush(std::size_t worker) {
  while (const auto out = cores_[worker].poll_send())
    if (out->to.role == proto::Role::Server)
      must(transport_.send(worker * shards_ + out->to.index + 1, out->message));
}

void PathWorkers::finish() {
  while (busy_ > 0) {
    const auto received = must(transport_.receive(Duration::from_ms(100)));
    if (!received) continue;
    const std::size_t worker = (received->from - 1) / shards_;
    auto& core = cores_[worker];
    core.on_message(steady_now(), received->message->sender, must(received->message));
    if (core.failure()) must(Result<int>(tl::unexpected<Error>(*core.failure())));
    if (core.next_action() == worker::WorkerCore::Action::Load) {
      core.on_loaded(steady_now());
      --busy_;
    }
    flush(worker);
  }
}

PathPair::PathPair(std::size_t parameters, Ends ends, Wire wire, const std::string& state) {
  const Cores cores = cores_of(ends);
  cores.place(0);
  servers_ = std::make_unique<PathServers>(parameters, 1, 1, "asp", wire, state);
  cores.place(1);
  workers_ = std::make_unique<PathWorkers>(servers_->shards(), 0, 1, wire);
}

void PathWorkers::round() {
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    const Instant now = steady_now();
    cores_[i].on_step(now, {.spent = Duration::from_ms(1), .loss_sum = 1, .samples = 1});
    cores_[i].on_commit(now, {update_, true});  // a trainer tells while it hands the update out
    flush(i);
  }
  busy_ = cores_.size();
  finish();
}

}  // namespace rubato::bench
