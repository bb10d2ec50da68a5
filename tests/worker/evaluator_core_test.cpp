// The evaluator's timing: every interval a pull, a measurement, a report; nothing queues up.
#include "worker/evaluator_core.hpp"

#include <doctest/doctest.h>

#include "tests/server/sent.hpp"

namespace rubato::worker {
namespace {

using tests::bodies;
using tests::sent;
using Action = EvaluatorCore::Action;

constexpr std::uint64_t kClusterId = 0xc1;
constexpr proto::NodeId kScheduler{proto::Role::Scheduler, 0};
constexpr proto::NodeId kServer{proto::Role::Server, 0};
const Duration kSecond = Duration::from_seconds(1);

struct EvaluatorWorld {
  Instant now{1'000'000'000};
  EvaluatorCore core{options()};

  static EvaluatorOptions options() {
    EvaluatorOptions options;
    options.cluster = kClusterId;
    options.parameters = 3;
    return options;
  }
  void hear(proto::NodeId sender, proto::Body body, proto::Payload payload = {}) {
    core.on_message(now, {.cluster = kClusterId,
                          .sender = sender,
                          .incarnation = 1,
                          .body = std::move(body),
                          .payload = std::move(payload)});
  }
  void welcome() {
    proto::Welcome welcome{
        .you = {proto::Role::Evaluator, 0}, .parameters = 3, .range = {}, .shards = {}};
    welcome.shards.shards.push_back({{0, 3}, "tcp://10.0.0.1:5700"});
    hear(kScheduler, welcome);
  }
  void start() {
    core.on_start(now);
    welcome();
    hear(kScheduler, proto::Start{});
  }
  void reply(Sequence sequence, float value = 1) {
    hear(kServer,
         proto::Parameters{
             .sequence = sequence, .version = 8, .offset = 0, .count = 3, .total = 3, .held = {}},
         tests::payload_of({value, value, value}));
  }
  // The sequences that are pulled from server 0 now: "1 2".
  std::string pulls() {
    std::string text;
    for (const auto& pull : bodies<proto::Pull>(sent(core), kServer))
      text += (text.empty() ? "" : " ") + std::to_string(pull.sequence);
    return text;
  }
  void wake_after(Duration time) {
    now = now + time;
    core.on_wakeup(now);
  }
};

TEST_CASE("evaluator: Hello until Start, then it pulls at once") {
  EvaluatorWorld world;
  world.core.on_start(world.now);
  CHECK(bodies<proto::Hello>(sent(world.core), kScheduler).at(0).name == "evaluator");
  world.hear(kScheduler, proto::Start{});  // before its Welcome: where from would it pull?
  CHECK(world.pulls() == "");
  world.wake_after(kSecond);
  CHECK(bodies<proto::Hello>(sent(world.core), kScheduler).size() == 1);
  world.welcome();
  world.hear(kScheduler, proto::Start{});
  CHECK(world.pulls() == "1");
  world.wake_after(kSecond * 2);
  CHECK(bodies<proto::Heartbeat>(sent(world.core), kScheduler).size() == 1);
}

TEST_CASE("evaluator: reports the age of what it measured, counted from the pull's arrival") {
  EvaluatorWorld world;
  world.start();
  CHECK(world.core.next_action() == Action::Wait);
  world.now = world.now + kSecond;
  world.reply(1, 4);
  CHECK(world.core.next_action() == Action::Evaluate);
  CHECK(world.core.parameters()[2] == 4);
  sent(world.core);
  world.now = world.now + kSecond * 2;
  world.core.on_evaluated(world.now, 0.5, 0.75);
  CHECK(world.core.next_action() == Action::Wait);
  const auto report = bodies<proto::Evaluation>(sent(world.core), kScheduler);
  REQUIRE(report.size() == 1);
  CHECK(report[0].age == kSecond * 2);
  CHECK(report[0].loss == 0.5);
  CHECK(report[0].accuracy == 0.75);
  CHECK(report[0].version == 8);
}

TEST_CASE("evaluator: pulls every interval, from pull to pull") {
  EvaluatorWorld world;
  world.start();
  CHECK(world.pulls() == "1");
  world.now = world.now + kSecond;
  world.reply(1);
  world.core.on_evaluated(world.now, 1, 0);
  world.wake_after(kSecond * 3.9);
  CHECK(world.pulls() == "");
  world.wake_after(kSecond * 0.1);
  CHECK(world.pulls() == "2");
}

TEST_CASE("evaluator: a measurement longer than the interval delays the next one, none queue up") {
  EvaluatorWorld world;
  world.start();
  world.reply(1);
  world.wake_after(kSecond * 12);
  CHECK(world.pulls() == "1");
  world.core.on_evaluated(world.now, 1, 0);
  CHECK(world.pulls() == "2");
}

TEST_CASE("evaluator: a pull that stays unanswered is tried again under a new number") {
  EvaluatorWorld world;
  world.start();
  CHECK(world.pulls() == "1");
  world.wake_after(kSecond * 29);
  CHECK(world.pulls() == "");
  world.wake_after(kSecond);
  CHECK(world.pulls() == "2");
  world.reply(1);  // too late: its chunks would mix with the new ones
  CHECK(world.core.next_action() == Action::Wait);
  world.reply(2);
  CHECK(world.core.next_action() == Action::Evaluate);
}

TEST_CASE("evaluator: Stop finishes it, a refusal or another cluster fails it with a reason") {
  EvaluatorWorld stopped;
  stopped.start();
  stopped.hear(kScheduler, proto::Stop{"target reached"});
  CHECK(stopped.core.next_action() == Action::Finish);
  CHECK(stopped.core.stopped() == "target reached");
  CHECK_FALSE(stopped.core.poll_wakeup().has_value());

  EvaluatorWorld refused;
  refused.core.on_start(refused.now);
  refused.hear(kScheduler, proto::Refusal{proto::RefusalCode::ModelSize, "another model"});
  CHECK(refused.core.next_action() == Action::Fail);
  CHECK(refused.core.failure()->message == "scheduler refused the evaluator: another model");

  EvaluatorWorld elsewhere;
  elsewhere.core.on_start(elsewhere.now);
  proto::Message foreign;
  foreign.cluster = 0xbad;
  foreign.sender = kScheduler;
  foreign.body = proto::Refusal{proto::RefusalCode::ClusterId, "no"};
  elsewhere.core.on_message(elsewhere.now, foreign);
  REQUIRE(elsewhere.core.failure().has_value());
  CHECK(elsewhere.core.failure()->message.find("another cluster") != std::string::npos);
}

TEST_CASE("evaluator: a scheduler that never answers is an error, not an endless wait") {
  EvaluatorWorld world;
  world.core.on_start(world.now);
  for (int second = 0; second < 60; ++second) world.wake_after(kSecond);
  REQUIRE(world.core.failure().has_value());
  CHECK(world.core.failure()->code == ErrorCode::Timeout);
}

}  // namespace
}  // namespace rubato::worker
