#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <stop_token>
#include <thread>

#include "base/multiversion.hpp"
#include "base/time.hpp"
#include "bench/path_pair.hpp"
#include "bench/path_rows.hpp"
#include "cluster/worker_node.hpp"
#include "proto/codec.hpp"
#include "proto/zmq_transport.hpp"
#include "server/shard_parameters.hpp"
#include "sync/factory.hpp"
#include "worker/commit_sender.hpp"

namespace rubato::bench {
namespace {

constexpr std::size_t kShard = (16u << 20) / sizeof(float);
constexpr std::size_t kChunk = (1u << 20) / sizeof(float);

// A model of one parameter whose step takes `step` of processor time.
class SpinDevice final : public train::Device {
 public:
  SpinDevice(Duration step, int steps, std::stop_source& done)
      : step_(step), steps_(steps), done_(done) {}
  std::string_view name() const override { return "spin"; }
  Result<void> build(const train::ModelSpec&, int) override { return {}; }
  std::size_t parameter_count() const override { return 1; }
  void freeze(const train::TrainedPart&, std::span<const float>) override {}
  int batch_max() const override { return 1; }
  void set_optimizer(const train::LocalOptimizerOptions&) override {}
  void load(std::span<const float>) override {}
  void load_under_update(std::span<const float>) override {}
  void read(std::span<float>) const override {}
  bool take_update(Floats& out) override {
    out.assign(1, 0.0f);
    return true;
  }
  void give(Floats&) override {}
  train::BatchResult step(const train::Batch&, float) override {
    const Instant began = steady_now();
    if (count_ == 0) first_ = began;
    while (steady_now() - began < step_) {
    }
    spent_ += steady_now() - began;
    last_ = steady_now();
    if (++count_ == steps_) done_.request_stop();
    return {};
  }
  train::BatchResult gradient(const train::Batch&, std::span<float>) override { return {}; }
  train::BatchResult evaluate(const train::Batch&) override { return {}; }
  void scores(std::span<float>) const override {}
  // Time between steps as a share of the time in them.
  double overhead() const { return (last_ - first_ - spent_).seconds() / spent_.seconds(); }

 private:
  Duration step_;
  int steps_;
  std::stop_source& done_;
  int count_ = 0;
  Instant first_, last_;
  Duration spent_;
};

proto::Message plain(proto::Body body, proto::Payload payload = {}) {
  proto::Message message;
  message.body = std::move(body);
  message.payload = std::move(payload);
  return message;
}

// A server behind a link of 100 Mb/s: takes its time over each chunk, then answers it.
class SlowServer {
 public:
  SlowServer() : endpoint_(transport_.listen("tcp://127.0.0.1:*").value()) {
    thread_ = std::jthread([this] { serve(); });
  }
  const std::string& endpoint() const { return endpoint_; }
  // When the Probe arrived. Requires: it was sent, and every chunk of the commit.
  Instant probed() {
    thread_.join();
    return probed_;
  }

 private:
  static constexpr double kBytesPerSecond = 100e6 / 8;

  void serve() {
    for (std::uint64_t taken = 0; taken < kShard || probed_ == Instant{};) {
      const auto received = transport_.receive(Duration::from_ms(100));
      if (!received || !*received || !(*received)->message) continue;
      const proto::Message& message = *(*received)->message;
      const auto* commit = std::get_if<proto::Commit>(&message.body);
      if (!commit) {
        probed_ = steady_now();
        continue;
      }
      taken += commit->count;
      std::this_thread::sleep_for(std::chrono::duration<double>(
          static_cast<double>(message.payload.size()) / kBytesPerSecond));
      (void)transport_.send((*received)->from,
                            plain(proto::ProbeReply{.sequence = 1, .missing_offsets = {}}));
    }
  }

  proto::ZmqTransport transport_;
  std::string endpoint_;
  Instant probed_;
  std::jthread thread_;
};

struct Urgent {
  double delay = 0;   // s, of a Probe sent right behind the first chunks that may go
  double commit = 0;  // s, of the whole commit
};

// One commit of 16 MiB and a Probe, with or without credit.
Urgent urgent(bool credit) {
  SlowServer server;
  proto::ZmqTransport transport;
  const proto::PeerId to = transport.connect(server.endpoint()).value();
  const auto update = proto::Payload::of(std::make_shared<const Floats>(kShard));
  worker::CommitSender sender({{{{0, kShard}, ""}}}, kChunk);
  sender.start();
  const auto send_ready = [&] {
    while (const auto chunk = sender.poll()) {
      const proto::Commit commit{.sequence = 1,
                                 .offset = chunk->offset,
                                 .count = chunk->count,
                                 .total = kShard,
                                 .steps = 1};
      (void)transport.send(to, plain(commit, update.slice(chunk->offset * sizeof(float),
                                                          chunk->count * sizeof(float))));
      if (!credit) sender.on_answer(0);
    }
  };
  const Instant began = steady_now();
  send_ready();
  (void)transport.send(to, plain(proto::Probe{1}));
  for (std::size_t answers = 0; answers < kShard / kChunk;) {
    const auto received = transport.receive(Duration::from_ms(100));
    if (!received || !*received) continue;
    ++answers;
    if (credit) sender.on_answer(0);
    send_ready();
  }
  const double commit = (steady_now() - began).seconds();
  return {(server.probed() - began).seconds(), commit};
}

}  // namespace

void credit_row(Rows& rows) {
  const Urgent with = urgent(true);
  const Urgent without = urgent(false);
  rows.add({.name = "urgent message behind 16MiB, 100 Mb/s",
            .value = with.delay * 1e3,
            .unit = "ms",
            .peer = "without credit",
            .peer_value = without.delay * 1e3});
  rows.add({.name = "the 16MiB themselves, 100 Mb/s",
            .value = with.commit * 1e3,
            .unit = "ms",
            .peer = "without credit",
            .peer_value = without.commit * 1e3,
            .bar = "<= 1.01"});
}

namespace {

// As fast as this machine can, with fused multiply-add where it has one.
RUBATO_MULTIVERSION void axpy(float* w, const float* u, float rate, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) w[i] -= rate * u[i];
}

struct ApplyCase {
  const char* name = "";
  server::OptimizerKind kind = server::OptimizerKind::Sgd;
  double bytes = 0;  // read and written for a parameter
  std::size_t floats = kShard;
  server::ShardParameters::Checksum checksum = server::ShardParameters::Checksum::Skip;
  const char* bar = "";
};

void apply_row(Rows& rows, int turns, const ApplyCase& c) {
  constexpr double kAxpyBytes = 12;
  const std::vector<float> update(c.floats, 1e-6f);
  std::vector<float> plain(c.floats, 1.0f);
  volatile float factor = 0.5f;  // not known to the compiler
  server::Optimizer optimizer({.kind = c.kind, .momentum = 0.9, .global_rate = {}}, c.floats);
  server::ShardParameters shard(plain, kChunk);
  const auto seconds =
      in_turns(turns, {[&] {
                         for (std::size_t at = 0; at < c.floats; at += kChunk)
                           shard.apply(optimizer, at, std::span(update).subspan(at, kChunk),
                                       {.rate = factor, .delay = 4}, c.checksum);
                       },
                       [&] { axpy(plain.data(), update.data(), factor, c.floats); }});
  const double gigafloats = 1e-9 * static_cast<double>(c.floats);
  rows.add({.name = fmt::format("server apply, {}", c.name),
            .value = c.bytes * gigafloats / seconds[0],
            .unit = "GB/s",
            .peer = "float32 axpy",
            .peer_value = kAxpyBytes * gigafloats / seconds[1],
            .bar = c.bar});
}

}  // namespace

void apply_rows(Rows& rows, int turns) {
  using Kind = server::OptimizerKind;
  constexpr auto kHash = server::ShardParameters::Checksum::Compute;
  for (const ApplyCase& c :
       {ApplyCase{.name = "sgd, 1MiB", .kind = Kind::Sgd, .bytes = 12, .floats = kChunk},
        {.name = "sgd, 16MiB", .kind = Kind::Sgd, .bytes = 12, .bar = ">= 0.85"},
        {.name = "sgd, 64MiB", .kind = Kind::Sgd, .bytes = 12, .floats = 4 * kShard},
        {.name = "sgd + checksum, 16MiB", .kind = Kind::Sgd, .bytes = 12, .checksum = kHash},
        {.name = "momentum, 16MiB", .kind = Kind::Momentum, .bytes = 20},
        {.name = "nesterov, 16MiB", .kind = Kind::Nesterov, .bytes = 20},
        {.name = "delayed-nesterov, 16MiB", .kind = Kind::DelayedNesterov, .bytes = 24},
        {.name = "adam, 16MiB", .kind = Kind::Adam, .bytes = 28}})
    apply_row(rows, turns, c);
}

void control_frame_row(Rows& rows, int turns) {
  constexpr int kFrames = 100'000;
  proto::Message message =
      plain(proto::Commit{.sequence = 5, .count = 1, .total = 1 << 18, .steps = 9},
            proto::Payload::of(std::make_shared<const Floats>(1)));
  message.sender = {proto::Role::Worker, 3};
  message.incarnation = 7;
  std::uint64_t sum = 0;
  const auto seconds = in_turns(turns, {[&] {
                                  for (int i = 0; i < kFrames; ++i) {
                                    const auto frames = proto::encode(message);
                                    const auto back = proto::decode(frames.control, frames.payload);
                                    sum += back ? back->incarnation : 0;
                                  }
                                }});
  if (sum == 0) std::abort();
  rows.add({.name = "control frame encode+verify+read",
            .value = seconds[0] / kFrames * 1e9,
            .unit = "ns",
            .bar = "<= 200"});
}

namespace {

// Steps of 1 ms through the real loop, core and transport. Returns: the time between steps as a
// share of the time in them.
double step_overhead(int steps, const std::string& sync) {
  std::stop_source done;
  const PathServers servers(1, 1, 1);
  PathScheduler scheduler(servers);
  train::Dataset data;
  data.shape = {1, 1, 1};
  data.classes = 1;
  data.labels = {0};
  data.features = std::vector<float>(1);
  auto device = std::make_unique<SpinDevice>(Duration::from_ms(1), steps, done);
  const SpinDevice& spun = *device;
  train::LocalTrainer trainer(std::move(device), data, {{0}, Rng(1)}, 1, {});
  worker::WorkerCore core(path_worker_options(servers.shards(), 0),
                          sync::make_commit_rule(sync, {}));
  proto::ZmqTransport transport;
  const cluster::WorkerNodeOptions options{.scheduler = scheduler.endpoint(), .step_time = {}};
  (void)cluster::run_worker(transport, core, trainer, options, done.get_token());
  return spun.overhead();
}

}  // namespace

// A commit is no part of a step, but its time is all that a loop that commits after each step adds.
void step_rows(Rows& rows, int steps) {
  rows.add({.name = "framework beside 1 ms steps",
            .value = step_overhead(steps, "adsp") * 100,
            .unit = "%",
            .bar = "< 2"});
  rows.add({.name = "1 ms steps, a commit after each: the commit",
            .value = step_overhead(steps, "asp") * 1000,
            .unit = "us"});
}

}  // namespace rubato::bench
