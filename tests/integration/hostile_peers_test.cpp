// What strangers, impostors and broken members do to a running cluster: each is told why it is
// refused, and training goes on and ends as if nothing had happened.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "cluster/plan_training.hpp"
#include "cluster/worker_node.hpp"
#include "proto/codec.hpp"
#include "tests/integration/peers.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/integration/thread_cluster.hpp"
#include "tests/loopback.hpp"

namespace rubato::integration {
namespace {

using proto::RefusalCode;
using proto::Role;

// A cluster under BSP, where one worker that is disturbed stops all others.
struct Running {
  Running() : cluster(parse(QuickCluster{.stop = kEndless}.text()), {.sync = "bsp"}) {
    cluster.start_workers();
    REQUIRE(cluster.wait_until([](const RunRecord& record) { return record.steps >= 30; }));
  }
  // Training goes on, learns, and ends with every worker.
  void check_unharmed() {
    const std::uint64_t before = cluster.steps();
    REQUIRE(
        cluster.wait_until([&](const RunRecord& record) { return record.steps >= before + 60; }));
    cluster.stop();
    const auto record = cluster.wait_for_end();
    REQUIRE(record);
    CHECK(std::isfinite(record->final_loss));
    REQUIRE(record->workers.size() == 3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      CHECK(record->workers[i].fate == "member");
      const auto& end = cluster.worker_end(i);
      REQUIRE_MESSAGE(end, (end ? "" : end.error().message));
      CHECK(*end == "the test ends it");
    }
    CHECK(cluster.server_stats(0).commits_applied >= record->commits);
  }
  Identity stranger() const { return {cluster.plan().cluster, {Role::Worker, 99}, 12345}; }

  ThreadCluster cluster;
};

// A worker as a user would start it, on the given cluster file and under the given name. Returns:
// how it ended.
Result<std::string> run_worker(const ThreadCluster& cluster, const cluster::ClusterConfig& config,
                               const std::string& name) {
  RUBATO_ASSIGN(const auto plan,
                cluster::make_plan(config, "bsp", config.seed, cluster.data().train.shape,
                                   cluster.data().train.classes));
  RUBATO_ASSIGN(auto samples, cluster::plan_samples(config, plan, cluster.data()));
  RUBATO_ASSIGN(auto trainer, cluster::make_trainer(config, plan, 0, cluster.data().train,
                                                    std::move(samples[0])));
  const auto core = cluster::make_worker(config, plan, 777, name);
  proto::ZmqTransport transport;
  return cluster::run_worker(transport, *core, trainer, {cluster.scheduler(), {}}, {});
}

proto::Progress steps_of(std::uint64_t steps) {
  proto::Progress progress;
  progress.steps = steps;
  return progress;
}

void check_refused(const Result<std::string>& end, const std::string& words) {
  REQUIRE_FALSE(end);
  CAPTURE(end.error().message);
  CHECK(end.error().code == ErrorCode::Refused);
  CHECK(contains(end.error().message, words));
}

TEST_CASE("garbage and truncated frames are refused by scheduler and server") {
  Running running;
  const proto::Message good{.cluster = running.cluster.plan().cluster,
                            .sender = {Role::Worker, 0},
                            .incarnation = 1,
                            .body = proto::Hello{"fast-0", 1, ""},
                            .payload = {}};
  for (const std::string& endpoint : {running.cluster.scheduler(), running.cluster.server(0)}) {
    CAPTURE(endpoint);
    RawPeer peer(endpoint);
    Parts truncated = parts_of(good);
    truncated[0].resize(truncated[0].size() - 5);
    Parts flipped = parts_of(good);
    flipped[0].back() ^= std::byte{1};
    Parts too_many = parts_of(good);
    too_many.emplace_back();
    for (const Parts& parts : {Parts{std::vector(200, std::byte{0x5a}), {}}, Parts{{}, {}},
                               Parts{{std::byte{1}}}, truncated, flipped, too_many}) {
      peer.send(parts);
      const proto::Refusal refusal = peer.expect_refusal();
      CHECK(refusal.code == RefusalCode::BadMessage);
      CHECK_FALSE(refusal.message.empty());
    }
  }
  running.check_unharmed();
}

TEST_CASE("another protocol version is told both versions") {
  Running running;
  Parts parts = parts_of({.cluster = running.cluster.plan().cluster,
                          .sender = {Role::Worker, 0},
                          .incarnation = 1,
                          .body = proto::Hello{"fast-0", 1, ""},
                          .payload = {}});
  parts[0][4] = std::byte{77};  // docs/protocol.md: the version follows four bytes of magic
  for (const std::string& endpoint : {running.cluster.scheduler(), running.cluster.server(0)}) {
    RawPeer peer(endpoint);
    peer.send(parts);
    const proto::Refusal refusal = peer.expect_refusal();
    CAPTURE(refusal.message);
    CHECK(refusal.code == RefusalCode::ProtocolVersion);
    CHECK(contains(refusal.message, "version 77"));
    CHECK(contains(refusal.message, "version " + std::to_string(proto::kProtocolVersion)));
  }
  running.check_unharmed();
}

TEST_CASE("a node of another cluster is refused by scheduler and server") {
  Running running;
  auto config = running.cluster.config();
  config.name = "another";
  check_refused(run_worker(running.cluster, config, "fast-0"), "cluster");

  Identity other = running.stranger();
  other.cluster += 1;
  HandPeer peer(other, running.cluster.server(0));
  peer.send(proto::Pull{1});
  CHECK(peer.expect<proto::Refusal>().code == RefusalCode::ClusterId);
  running.check_unharmed();
}

TEST_CASE("a worker with a model of another size is refused") {
  Running running;
  auto config = running.cluster.config();
  config.model.hidden = {17};
  check_refused(run_worker(running.cluster, config, "fast-2"), "parameters");
  running.check_unharmed();
}

TEST_CASE("a commit from a stranger or under a member's id is refused and not applied") {
  Running running;
  const std::uint64_t count = running.cluster.plan().parameters;
  const auto poison = std::make_shared<const std::vector<float>>(count, 1e30f);
  const proto::Commit commit{.sequence = 1000,
                             .offset = 0,
                             .count = count,
                             .total = count,
                             .steps = 1,
                             .codec = proto::PayloadCodec::F32};
  for (const std::uint32_t id : {99u, 0u}) {
    Identity impostor = running.stranger();
    impostor.node.index = id;
    HandPeer peer(impostor, running.cluster.server(0));
    peer.send(commit, proto::Payload::of(poison));
    CHECK(peer.expect<proto::Refusal>().code == RefusalCode::NotMember);
  }
  running.check_unharmed();
  CHECK(running.cluster.server_stats(0).messages_refused == 2);
}

TEST_CASE("Progress and Leave under a member's id are refused") {
  Running running;
  Identity impostor = running.stranger();
  impostor.node.index = 0;
  HandPeer peer(impostor, running.cluster.scheduler());
  for (const proto::Body& body :
       {proto::Body{steps_of(1'000'000'000)}, proto::Body{proto::Leave{"bye"}}}) {
    peer.send(body);
    CHECK(peer.expect<proto::Refusal>().code == RefusalCode::NotMember);
  }
  running.check_unharmed();
}

// A TCP connection that never gets as far as a message.
class HalfOpen {
 public:
  HalfOpen(const std::string& endpoint, const std::string& bytes)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    REQUIRE(tests::connect_to(fd_, tests::port_of(endpoint)) == 0);
    REQUIRE(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  ~HalfOpen() { ::close(fd_); }
  HalfOpen(const HalfOpen&) = delete;
  HalfOpen& operator=(const HalfOpen&) = delete;

 private:
  int fd_;
};

TEST_CASE("connections that say nothing or half a greeting hold up nobody") {
  Running running;
  const HalfOpen silent(running.cluster.scheduler(), "");
  const HalfOpen half(running.cluster.server(0), std::string("\xff\0\0\0\0", 5));
  const HalfOpen other(running.cluster.server(0), "GET / HTTP/1.1\r\n");
  running.check_unharmed();
}

std::string fate_of(const RunRecord& record, const std::string& worker) {
  for (const auto& row : record.workers)
    if (row.id == worker) return row.fate;
  return "unknown";
}

// The slow worker of the cluster, played by hand.
Member slow_member(ThreadCluster& cluster) {
  // The others are in, so the shards are there.
  REQUIRE(cluster.wait_until([](const RunRecord& record) { return record.workers.size() == 2; }));
  const auto& plan = cluster.plan();
  return Member(plan.cluster, {plan.workers[2].name, plan.parameters, "", plan.settings},
                cluster.scheduler(), cluster.server(0));
}

TEST_CASE("an update that holds NaN is refused, reported to its sender and never applied") {
  for (const char* sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    ThreadCluster cluster(parse(QuickCluster{.stop = kEndless}.text()), {.sync = sync});
    cluster.start_worker(0);
    cluster.start_worker(1);
    Member member = slow_member(cluster);
    std::vector<float> update(member.parameters, 0.0f);
    update[member.parameters / 2] = std::numeric_limits<float>::quiet_NaN();
    member.commit(2, update);
    CHECK(member.to_server.expect<proto::Parameters>().refused);
    update[member.parameters / 2] = std::numeric_limits<float>::infinity();
    member.commit(3, update);
    CHECK(member.to_server.expect<proto::Parameters>().refused);
    update[member.parameters / 2] = 0.0f;
    member.commit(4, update);
    CHECK_FALSE(member.to_server.expect<proto::Parameters>().refused);
    // A slice of another size than the shard's.
    member.commit(5, std::vector<float>(member.parameters - 1));
    CHECK(member.to_server.expect<proto::Refusal>().code == RefusalCode::ModelSize);
    member.to_scheduler.send(proto::Leave{"done"});

    const std::uint64_t before = cluster.steps();
    REQUIRE(
        cluster.wait_until([&](const RunRecord& record) { return record.steps >= before + 40; }));
    cluster.stop();
    const auto record = cluster.wait_for_end();
    REQUIRE(record);
    REQUIRE(cluster.worker_end(0));
    REQUIRE(cluster.worker_end(1));
    for (const auto& evaluation : record->evaluations) CHECK(std::isfinite(evaluation.loss));
    CHECK(cluster.server_stats(0).commits_refused == 2);
  }
}

TEST_CASE("a member that falls silent under BSP is declared lost and the round closes") {
  ThreadCluster cluster(parse("silence_seconds = 2\n" + QuickCluster{.stop = kEndless}.text()),
                        {.sync = "bsp"});
  cluster.start_worker(0);
  cluster.start_worker(1);
  Member member = slow_member(cluster);
  REQUIRE(cluster.wait_until([](const RunRecord& record) {
    return fate_of(record, "slow") == "lost" && record.steps >= 40;
  }));
  // Back from the dead: told so, and the others do not notice.
  member.to_scheduler.send(steps_of(7));
  const auto refusal = member.to_scheduler.expect<proto::Refusal>();
  CHECK(refusal.code == RefusalCode::NotMember);
  CHECK(contains(refusal.message, "lost"));
  member.commit(2, std::vector<float>(member.parameters));
  CHECK(member.to_server.expect<proto::Refusal>().code == RefusalCode::NotMember);
  cluster.stop();
  const auto record = cluster.wait_for_end();
  REQUIRE(record);
  CHECK(fate_of(*record, "slow") == "lost");
  CHECK(fate_of(*record, "fast-0") == "member");
  CHECK(fate_of(*record, "fast-1") == "member");
}

// Its I/O loop lives, its compute thread hangs.
TEST_CASE(
    "a member that heartbeats and never commits under BSP is left out, and the others go on") {
  ThreadCluster cluster(
      parse("silence_seconds = 3\nstalled_seconds = 2\nfirst_commit_seconds = 2\n" +
            QuickCluster{.stop = kEndless}.text()),
      {.sync = "bsp", .settings = "a real run"});
  cluster.start_worker(0);
  cluster.start_worker(1);
  Member member = slow_member(cluster);
  REQUIRE(cluster.wait_until([&](const RunRecord& record) {
    member.to_scheduler.send(steps_of(1));
    return fate_of(record, "slow") == "lost" && record.steps >= 40;
  }));
  cluster.stop();
  const auto record = cluster.wait_for_end();
  REQUIRE(record);
  CHECK(fate_of(*record, "fast-0") == "member");
  const auto& slow = *std::ranges::find(record->workers, "slow", &WorkerRecord::id);
  MESSAGE("left out after ", *slow.left_seconds - slow.joined_seconds, " s");
}

TEST_CASE("a member whose commits are absurd harms nobody, and is set aside") {
  ThreadCluster cluster(parse(QuickCluster{.stop = kEndless}.text()),
                        {.sync = "asp", .settings = "a real run"});
  cluster.start_worker(0);
  cluster.start_worker(1);
  Member member = slow_member(cluster);
  for (Sequence sequence = 2; sequence < 14; ++sequence) {
    member.commit(sequence, std::vector<float>(member.parameters, 1e30f));
    CHECK(member.to_server.expect<proto::Parameters>().refused);
  }
  // Elastic, which ASP is not; and 3e38 with a weight of 10^6.
  const std::uint64_t count = member.parameters;
  member.to_server.send(
      proto::Commit{.sequence = 14, .count = count, .total = count, .weight = 0.5, .elastic = true},
      proto::Payload::of(std::make_shared<const std::vector<float>>(count, 7.0f)));
  CHECK(member.to_server.expect<proto::Parameters>().refused);
  member.to_server.send(
      proto::Commit{.sequence = 15, .count = count, .total = count, .weight = 1e6},
      proto::Payload::of(std::make_shared<const std::vector<float>>(count, 3e38f)));
  CHECK(member.to_server.expect<proto::Parameters>().refused);
  const auto refusal = member.to_scheduler.expect<proto::Refusal>();
  CHECK(refusal.code == RefusalCode::SetAside);
  CHECK(contains(refusal.message, "commits in a row were refused"));
  const std::uint64_t before = cluster.steps();
  REQUIRE(
      cluster.wait_until([&](const RunRecord& record) { return record.steps >= before + 100; }));
  cluster.stop();
  const auto record = cluster.wait_for_end();
  REQUIRE(record);
  CHECK(fate_of(*record, "slow") == "set aside");
  for (const auto& evaluation : record->evaluations) CHECK(std::isfinite(evaluation.loss));
  CHECK(record->setbacks == 0);
  CHECK(cluster.server_stats(0).refused == proto::RefusedCounts{0, 12, 2, 0});
}

}  // namespace
}  // namespace rubato::integration
