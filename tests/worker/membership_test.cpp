// Joining, being refused, and joining again, without anything to exchange or train.
#include "worker/membership.hpp"

#include <doctest/doctest.h>

#include "tests/server/sent.hpp"
#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using News = Membership::News;
using proto::NodeId;
using proto::Role;

constexpr NodeId kScheduler{Role::Scheduler, 0};
constexpr NodeId kServer{Role::Server, 1};

struct Member {
  Instant now{1'000'000'000};
  Membership membership{
      {.cluster = kCluster, .incarnation = 40, .name = "edge-0", .parameters = 5, .timing = {}}};

  Result<News> hear(NodeId from, proto::Body body, Incarnation life = 1, bool served = false) {
    return membership.on_message(now, from,
                                 {.cluster = kCluster,
                                  .sender = from,
                                  .incarnation = life,
                                  .body = std::move(body),
                                  .payload = {}},
                                 served);
  }
  Result<News> welcome(Incarnation life = 1, std::uint64_t parameters = 5) {
    proto::Welcome body{
        .you = {Role::Worker, 3}, .parameters = parameters, .range = {}, .shards = {}};
    body.shards.shards.push_back({proto::shard_range(parameters, 0, 1), "tcp://10.0.0.1:5700"});
    return hear(kScheduler, body, life);
  }
  // Returns: the sender and its incarnation of the only message that waits.
  std::pair<NodeId, Incarnation> signature() {
    const auto out = membership.mail().poll();
    REQUIRE(out);
    REQUIRE_FALSE(membership.mail().poll());
    return {out->message.sender, out->message.incarnation};
  }
};

const proto::Refusal kNotMember{proto::RefusalCode::NotMember, "who are you"};

TEST_CASE("membership: Hello each second until it has joined, then heartbeats") {
  Member member;
  member.membership.on_start(member.now);
  for (int second = 0; second < 3; ++second) {
    CHECK(member.membership.on_wakeup(member.now) == false);
    CHECK(member.signature() == std::pair(NodeId{Role::Worker, 0}, Incarnation{40}));
    member.now = member.now + kSecond;
  }
  CHECK(member.welcome() == News::WelcomeNewRun);
  CHECK(member.welcome() == News::None);  // the answer to a repeated Hello
  CHECK(member.hear(kScheduler, proto::Start{}) == News::Start);
  member.membership.on_joined(member.now);
  member.now = member.now + kSecond * 2;
  CHECK(member.membership.on_wakeup(member.now) == true);
  CHECK_FALSE(member.membership.mail().poll());  // the heartbeat is the caller's
}

TEST_CASE("membership: a Welcome under another number tells that the first one has ended") {
  Member member;
  CHECK(member.welcome() == News::WelcomeNewRun);
  proto::Welcome other{.you = {Role::Worker, 4}, .parameters = 5, .range = {}, .shards = {}};
  other.shards.shards.push_back({proto::shard_range(5, 0, 1), "tcp://10.0.0.1:5700"});
  CHECK(member.hear(kScheduler, other) == News::Lost);
  other.looks = true;
  CHECK(member.hear(kScheduler, other) == News::None);
}

TEST_CASE("membership: a Start before any Welcome means nothing") {
  Member member;
  CHECK(member.hear(kScheduler, proto::Start{}) == News::None);
}

TEST_CASE("membership: refusals of an earlier incarnation are ignored") {
  Member member;
  CHECK(member.hear(kScheduler, kNotMember) == News::None);  // not welcomed yet
  CHECK(member.welcome() == News::WelcomeNewRun);
  CHECK(member.hear(kServer, kNotMember) == News::None);  // no pull was served yet
  CHECK(member.hear(kServer, kNotMember, 1, true) == News::Lost);
  auto named = kNotMember;
  named.whose = member.membership.mail().incarnation();
  CHECK(member.hear(kServer, named) == News::None);  // its list is still under way
  member.membership.on_joined(member.now);
  CHECK(member.hear(kServer, named) == News::Lost);
  ++named.whose;
  CHECK(member.hear(kServer, named) == News::None);
  CHECK(member.hear(kScheduler, kNotMember) == News::Lost);
}

TEST_CASE("membership: a rejoin is a new incarnation, in the same run or in another one") {
  for (const Incarnation life : {1U, 2U}) {
    Member member;
    CHECK(member.welcome() == News::WelcomeNewRun);
    member.membership.rejoin(member.now);
    CHECK_FALSE(member.membership.id());
    CHECK(member.membership.run() == Incarnation{1});
    CHECK(member.membership.on_wakeup(member.now) == false);
    CHECK(member.signature() == std::pair(NodeId{Role::Worker, 0}, Incarnation{41}));
    CHECK(member.welcome(life) == (life == 1 ? News::Welcome : News::WelcomeNewRun));
    CHECK(member.membership.run() == life);
    member.membership.leave("done");
    CHECK(member.signature() == std::pair(NodeId{Role::Worker, 3}, Incarnation{41}));
  }
}

TEST_CASE("membership: another cluster, another model and a refusal for good are errors") {
  Member member;
  const auto other = member.membership.on_message(
      member.now, kScheduler,
      {.cluster = 8, .sender = kScheduler, .incarnation = 1, .body = proto::Start{}, .payload = {}},
      false);
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::Refused);
  const auto model = member.welcome(1, 6);
  REQUIRE_FALSE(model);
  CHECK(model.error().message == "scheduler: its shard map covers 6 parameters, our model has 5");
  const auto full = member.hear(kScheduler, proto::Refusal{proto::RefusalCode::ClusterFull, "no"});
  REQUIRE_FALSE(full);
  CHECK(full.error().code == ErrorCode::Refused);
}

}  // namespace
}  // namespace rubato::worker
