// The evaluator's timing: every interval a pull, a measurement, a report; nothing queues up.
#include "worker/evaluator_core.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/sent.hpp"

namespace rubato::worker::evaluator_core_tests {
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

  explicit EvaluatorWorld(std::uint32_t shards = 1) : shards_(shards) {}

  static EvaluatorOptions options() {
    EvaluatorOptions options;
    options.cluster = kClusterId;
    options.parameters = 3;
    return options;
  }
  void hear(proto::NodeId sender, proto::Body body, proto::Payload payload = {}) {
    core.on_message(now, sender,
                    {.cluster = kClusterId,
                     .sender = sender,
                     .incarnation = 1,
                     .body = std::move(body),
                     .payload = std::move(payload)});
  }
  void welcome() {
    proto::Welcome welcome{
        .you = {proto::Role::Evaluator, 0}, .parameters = 3, .range = {}, .shards = {}};
    for (std::uint32_t i = 0; i < shards_; ++i)
      welcome.shards.shards.push_back({proto::shard_range(3, i, shards_), "tcp://10.0.0.1:5700"});
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
  // One parameter of those of one server, at `offset` of `total`.
  void chunk(Sequence sequence, std::uint64_t offset, float value = 1, std::uint32_t server = 0,
             std::uint64_t total = 3) {
    hear({proto::Role::Server, server},
         proto::Parameters{.sequence = sequence,
                           .version = 8,
                           .offset = offset,
                           .count = 1,
                           .total = total,
                           .held = {}},
         tests::payload_of({value}));
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

 private:
  std::uint32_t shards_;
};

std::vector<float> measured(const EvaluatorWorld& world) {
  REQUIRE(world.core.next_action() == Action::Evaluate);
  return {world.core.parameters().begin(), world.core.parameters().end()};
}

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

TEST_CASE("evaluator: a pull that stays unanswered is tried again, each time twice as late") {
  EvaluatorWorld world;
  world.start();
  CHECK(world.pulls() == "1");
  world.wake_after(kSecond * 29);
  CHECK(world.pulls() == "");
  world.wake_after(kSecond);
  CHECK(world.pulls() == "2");
  world.wake_after(kSecond * 59);
  CHECK(world.pulls() == "");
  world.wake_after(kSecond);
  CHECK(world.pulls() == "3");
  world.wake_after(kSecond * 119);
  CHECK(world.pulls() == "");
  world.reply(3, 4);
  CHECK(measured(world) == std::vector<float>{4, 4, 4});
}

TEST_CASE("evaluator: a pull may take any time while its chunks come") {
  EvaluatorWorld world;
  world.start();
  CHECK(world.pulls() == "1");
  for (const std::uint64_t offset : {0u, 1u, 2u}) {
    world.wake_after(kSecond * 29);
    CHECK(world.pulls() == "");
    world.chunk(1, offset);
  }
  CHECK(measured(world).size() == 3);
  world.core.on_evaluated(world.now, 1, 0);
  CHECK(world.pulls() == "2");  // the interval is long over
  world.wake_after(kSecond * 57);
  CHECK(world.pulls() == "");  // the link is as slow as that
  world.wake_after(kSecond);
  CHECK(world.pulls() == "3");
}

TEST_CASE("evaluator: what came before it pulled again counts, and what still comes of that") {
  EvaluatorWorld world;
  world.start();
  world.chunk(1, 0);
  world.wake_after(kSecond * 30);
  CHECK(world.pulls() == "1 2");
  world.wake_after(kSecond * 10);
  world.chunk(1, 1);
  world.wake_after(kSecond * 50);
  CHECK(world.pulls() == "");  // the second wait is 60 s, from that chunk on
  world.chunk(1, 2);
  CHECK(measured(world) == std::vector<float>{1, 1, 1});
  world.core.on_evaluated(world.now, 1, 0);
  CHECK(world.pulls() == "3");
  world.reply(2, 2);  // nobody waits for it, but the next one is behind it
  CHECK(world.core.next_action() == Action::Wait);
  world.reply(3, 3);
  CHECK(measured(world) == std::vector<float>{3, 3, 3});
}

TEST_CASE("evaluator: chunks of two pulls are never measured together") {
  EvaluatorWorld world;
  world.start();
  world.chunk(1, 0);
  world.wake_after(kSecond * 30);
  CHECK(world.pulls() == "1 2");
  world.chunk(2, 0, 2);  // the rest of the first is lost
  world.chunk(1, 1);
  world.chunk(2, 1, 2);
  world.chunk(1, 2);
  world.chunk(9, 2, 9);  // never asked for
  CHECK(world.core.next_action() == Action::Wait);
  world.chunk(2, 2, 2);
  CHECK(measured(world) == std::vector<float>{2, 2, 2});
}

TEST_CASE("evaluator: all shards answer one pull, whichever has lost the first") {
  for (const std::uint32_t lost : {0u, 1u}) {
    CAPTURE(lost);
    EvaluatorWorld world(2);  // of 2 and 1 parameters
    world.start();
    const auto answer = [&](std::uint32_t server, Sequence pull) {
      const std::uint64_t total = server == 0 ? 2 : 1;
      for (std::uint64_t offset = 0; offset < total; ++offset)
        world.chunk(pull, offset, static_cast<float>(pull), server, total);
    };
    answer(1 - lost, 1);
    CHECK(world.pulls() == "1");
    world.wake_after(kSecond * 30);
    CHECK(world.pulls() == "2");
    answer(1 - lost, 2);
    CHECK(world.core.next_action() == Action::Wait);
    answer(lost, 2);
    CHECK(measured(world) == std::vector<float>{2, 2, 2});
  }
}

TEST_CASE("evaluator: lost answers make it no more patient than a quick link needs") {
  EvaluatorWorld world;
  world.start();
  CHECK(world.pulls() == "1");
  for (Sequence repeat = 2; repeat <= 8; repeat += 2) {
    CAPTURE(repeat);
    world.wake_after(kSecond * 30);  // nothing came
    CHECK(world.pulls() == std::to_string(repeat));
    world.reply(repeat);
    world.core.on_evaluated(world.now, 1, 0);
    world.wake_after(kSecond * 5);
    CHECK(world.pulls() == std::to_string(repeat + 1));
  }
}

TEST_CASE("evaluator: an answer that comes late makes it patient for one pull") {
  EvaluatorWorld world;
  world.start();
  world.wake_after(kSecond * 30);
  world.wake_after(kSecond * 60);
  CHECK(world.pulls() == "1 2 3");
  world.reply(2);
  world.core.on_evaluated(world.now, 1, 0);
  world.wake_after(kSecond * 5);
  CHECK(world.pulls() == "4");
  world.wake_after(kSecond);
  world.reply(4);
  world.core.on_evaluated(world.now, 1, 0);
  world.wake_after(kSecond * 4);
  CHECK(world.pulls() == "5");
  world.wake_after(kSecond * 30);
  CHECK(world.pulls() == "6");
}

// The answers go one chunk after the other over a link that takes so long for each.
TEST_CASE("evaluator: however slow the link, it evaluates, and little waits in line") {
  for (const double seconds : {0.1, 7.6, 20.0, 40.0, 500.0}) {
    CAPTURE(seconds);
    EvaluatorWorld world;
    world.start();
    std::vector<std::pair<Sequence, std::uint64_t>> line;
    std::size_t longest = 0;
    int evaluations = 0;
    Instant next = world.now;  // when the first in line has arrived
    while (evaluations < 10 && world.now < Instant{} + kSecond * 100'000) {
      if (world.core.next_action() == Action::Evaluate) {
        ++evaluations;
        world.core.on_evaluated(world.now, 1, 0);
      }
      for (const auto& pull : bodies<proto::Pull>(sent(world.core), kServer)) {
        if (line.empty()) next = world.now + kSecond * seconds;
        for (const std::uint64_t offset : {0u, 1u, 2u}) line.emplace_back(pull.sequence, offset);
      }
      longest = std::max(longest, line.size());
      const Instant wakeup = *world.core.poll_wakeup();
      if (line.empty() || wakeup < next) {
        world.now = std::max(world.now, wakeup);
        world.core.on_wakeup(world.now);
        continue;
      }
      world.now = next;
      world.chunk(line.front().first, line.front().second);
      line.erase(line.begin());
      next = world.now + kSecond * seconds;
    }
    CHECK(evaluations == 10);
    CHECK(longest <= (seconds < 30 ? 3 : seconds < 90 ? 6 : 18));
  }
}

TEST_CASE("evaluator: after Stop it pulls and is evaluated a last time, then it takes its leave") {
  EvaluatorWorld world;
  world.start();
  CHECK(world.pulls() == "1");
  const auto said = [&] { return sent(world.core); };
  SUBCASE("a pull is under way: its parameters are of the time before") {
    world.hear(kScheduler, proto::Stop{"target reached"});
    CHECK(world.pulls() == "2");
    world.reply(1, 5);
    CHECK(world.core.next_action() == Action::Wait);
  }
  SUBCASE("an evaluation is under way: it is reported first") {
    world.reply(1, 5);
    CHECK(measured(world) == std::vector<float>{5, 5, 5});
    world.hear(kScheduler, proto::Stop{"target reached"});
    CHECK(measured(world) == std::vector<float>{5, 5, 5});
    CHECK_FALSE(world.core.on_evaluated(world.now, 0.5, 0.9)->last);
    const auto both = said();
    CHECK(bodies<proto::Evaluation>(both, kScheduler).size() == 1);
    CHECK(bodies<proto::Pull>(both, kServer).at(0).sequence == 2);
  }
  world.hear(kScheduler, proto::Stop{"target reached"});  // said again
  CHECK(world.pulls() == "");
  world.wake_after(kSecond * 30);  // the pull was lost
  CHECK(world.pulls() == "3");
  world.reply(3, 7);
  CHECK(measured(world) == std::vector<float>{7, 7, 7});
  CHECK_FALSE(world.core.stopped().has_value());
  CHECK(world.core.on_evaluated(world.now, 0.4, 0.95)->last);
  const auto last = said();
  CHECK(bodies<proto::Evaluation>(last, kScheduler).at(0).loss == 0.4);
  CHECK(bodies<proto::Leave>(last, kScheduler).at(0).reason == "target reached");
  CHECK(world.core.next_action() == Action::Finish);
  CHECK(world.core.stopped() == "target reached");
  CHECK_FALSE(world.core.poll_wakeup().has_value());
}

TEST_CASE("evaluator: of the average and the parameters themselves, the better one counts") {
  auto options = EvaluatorWorld::options();
  options.averages = true;
  EvaluatorWorld world;
  world.core = EvaluatorCore(options);
  world.start();
  // Both are pulled at once. Returns: the sequence of the average; the next is the parameters'.
  const auto asked = [&] {
    const auto pulls = bodies<proto::Pull>(sent(world.core), kServer);
    REQUIRE(pulls.size() == 2);
    CHECK_FALSE(pulls[0].latest);
    CHECK(pulls[1].latest);
    CHECK(pulls[1].sequence == pulls[0].sequence + 1);
    return pulls[0].sequence;
  };
  const auto answer = [&](Sequence sequence) {
    world.reply(sequence, 5);
    CHECK(world.core.next_action() == Action::Wait);
    world.reply(sequence + 1, 7);
  };
  // Returns: the value of the parameters that count, 5 of the average or 7.
  const auto measure = [&](double of_average, double of_latest) {
    CHECK(measured(world) == std::vector<float>{5, 5, 5});
    CHECK_FALSE(world.core.on_evaluated(world.now, of_average, 0.1).has_value());
    CHECK(measured(world) == std::vector<float>{7, 7, 7});
    world.now = world.now + kSecond;
    const auto counts = world.core.on_evaluated(world.now, of_latest, 0.2);
    REQUIRE(counts.has_value());
    CHECK(counts->loss == std::min(of_average, of_latest));
    CHECK(counts->accuracy == (of_average <= of_latest ? 0.1 : 0.2));
    return counts->parameters[2];
  };
  const auto told = [&] { return bodies<proto::Evaluation>(sent(world.core), kScheduler).at(0); };

  SUBCASE("the average") {
    answer(asked());
    CHECK(measure(0.5, 0.6) == 5);
    const auto evaluation = told();
    CHECK(evaluation.loss == 0.5);
    CHECK(evaluation.age == kSecond);
    CHECK(*evaluation.gap == doctest::Approx(0.2));
    world.wake_after(kSecond * 3.9);  // five seconds after the last pull
    CHECK(world.pulls() == "");
    world.wake_after(kSecond * 0.1);
    answer(asked());
    CHECK(measure(0.5, 0.4) == 7);
  }
  SUBCASE("the parameters") {
    answer(asked());
    CHECK(measure(0.8, 0.6) == 7);
    const auto evaluation = told();
    CHECK(evaluation.loss == 0.6);
    CHECK(*evaluation.gap == doctest::Approx(-0.25));
  }
  SUBCASE("a loss that is no number never counts, and makes no gap") {
    answer(asked());
    CHECK(measure(0.8, std::numeric_limits<double>::infinity()) == 5);
    CHECK_FALSE(told().gap.has_value());
  }
  SUBCASE("one answer is lost: both are asked for again, and what came is kept") {
    world.reply(asked(), 5);
    world.wake_after(kSecond * 30);
    const Sequence again = asked();
    world.reply(again, 6);  // a second answer
    world.reply(again + 1, 7);
    CHECK(measure(0.5, 0.6) == 5);
  }
  SUBCASE("the end comes while both are measured: they count, and both are measured anew") {
    answer(asked());
    CHECK_FALSE(world.core.on_evaluated(world.now, 0.5, 0.1).has_value());
    world.hear(kScheduler, proto::Stop{"enough"});
    CHECK(world.core.on_evaluated(world.now, 0.6, 0.1)->parameters[0] == 5);
    CHECK_FALSE(world.core.stopped().has_value());
    const auto pulls = bodies<proto::Pull>(sent(world.core), kServer);
    REQUIRE(pulls.size() == 2);
    answer(pulls[0].sequence);
    CHECK(measure(0.5, 0.4) == 7);
    CHECK(world.core.next_action() == Action::Finish);
  }
}

TEST_CASE("evaluator: where nothing is held out there is only the last pull, and no figures") {
  auto options = EvaluatorWorld::options();
  options.silent = options.only_last = true;
  EvaluatorWorld world;
  world.core = EvaluatorCore(options);
  world.start();
  CHECK(world.pulls() == "");
  for (int second = 0; second < 60; ++second) {
    world.wake_after(kSecond);
    world.hear(kScheduler, proto::Heartbeat{});
    CHECK(world.pulls() == "");
  }
  world.hear(kScheduler, proto::Stop{"enough"});
  CHECK(world.pulls() == "1");
  world.reply(1, 7);
  CHECK(world.core.on_evaluated(world.now, 0, 0)->last);
  const auto last = sent(world.core);
  CHECK(bodies<proto::Evaluation>(last, kScheduler).empty());
  CHECK(bodies<proto::Leave>(last, kScheduler).size() == 1);
}

TEST_CASE(
    "evaluator: Stop before Start finishes it, a refusal or another cluster fails it with a "
    "reason") {
  EvaluatorWorld stopped;
  stopped.core.on_start(stopped.now);
  stopped.welcome();
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
  elsewhere.core.on_message(elsewhere.now, kScheduler, foreign);
  REQUIRE(elsewhere.core.failure().has_value());
  CHECK(elsewhere.core.failure()->message.find("another cluster") != std::string::npos);
}

TEST_CASE("evaluator: when a server is another process now, it asks again at once") {
  EvaluatorWorld world;
  world.start();
  sent(world.core);
  proto::Welcome moved{
      .you = {proto::Role::Evaluator, 0}, .parameters = 3, .range = {}, .shards = {}};
  moved.shards.shards = {{{0, 3}, "tcp://10.0.0.9:1"}};
  world.hear(kScheduler, moved);
  CHECK(world.core.shards() == moved.shards);
  const auto pulls = bodies<proto::Pull>(sent(world.core), kServer);
  REQUIRE(pulls.size() == 1);
  CHECK(pulls[0].sequence == 2);
  world.reply(2, 5);
  CHECK(world.core.next_action() == Action::Evaluate);
  world.hear(kScheduler, moved);  // while nothing is asked: nothing to do
  CHECK(sent(world.core).empty());
}

TEST_CASE("evaluator: a scheduler that never answers is an error, not an endless wait") {
  EvaluatorWorld world;
  world.core.on_start(world.now);
  for (int second = 0; second < 60; ++second) world.wake_after(kSecond);
  REQUIRE(world.core.failure().has_value());
  CHECK(world.core.failure()->code == ErrorCode::Timeout);
}

}  // namespace
}  // namespace rubato::worker::evaluator_core_tests
