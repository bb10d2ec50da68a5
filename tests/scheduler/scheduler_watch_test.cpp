// Members that lie or break, at the scheduler. A member that keeps others waiting is named, then
// left out. One that is refused again and again is set aside. After broken parameters all shards go
// back. server_members_test.cpp has what a shard says of them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

using proto::RefusalCode;
using tests::bodies;

SchedulerOptions watching(std::uint32_t workers = 3) {
  auto options = some_options(1, workers);
  options.watch = WatchOptions{};
  options.save_every = kSecond * 30;
  return options;
}

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

proto::Progress made(std::uint64_t steps, std::uint64_t commits) {
  proto::Progress progress;
  progress.steps = steps;
  progress.commits = commits;
  return progress;
}

// A commit after each step, the last with this mean loss.
proto::Progress with_loss(std::uint64_t steps, double loss) {
  proto::Progress progress = made(steps, steps);
  progress.loss = loss;
  progress.loss_samples = 10;
  return progress;
}

proto::Standing awaited(const PlayedWorker& worker, Duration waited, Duration usual) {
  return {.worker = WorkerId{worker.index},
          .incarnation = worker.incarnation,
          .waited = waited,
          .usual = usual,
          .waiting = 2};
}

proto::Standing refused(const PlayedWorker& worker, std::uint32_t in_a_row, std::uint32_t others) {
  proto::Standing standing{.worker = WorkerId{worker.index},
                           .incarnation = worker.incarnation,
                           .waited = {},
                           .usual = {}};
  standing.in_a_row = in_a_row;
  standing.others = others;
  standing.refused = {0, in_a_row, 0, 0};
  return standing;
}

proto::Heartbeat telling(const proto::Standing& standing) {
  proto::Heartbeat beat;
  beat.standings = {standing};
  return beat;
}

// The server holds commits, and says so, for so long.
void hold_up(SchedulerWorld& world, const PlayedWorker& whom, Duration usual, Duration time) {
  for (int i = 0; i < 2; ++i) {  // it does not say so before
    world.now = world.now + kSecond * 2;
    world.from_server(0, proto::Heartbeat{});
  }
  for (Duration waited = kSecond * 6; waited <= time; waited += kSecond * 2) {
    world.now = world.now + kSecond * 2;
    world.from_server(0, telling(awaited(whom, waited, usual)));
    for (const auto& worker : {kZero, kOne, kTwo}) world.from_worker(worker, made(10, 10));
    world.scheduler.on_wakeup(world.now);
  }
}

TEST_CASE("watch: who keeps others waiting is named, and then they go on without it") {
  SchedulerWorld world(watching());
  world.start(3);
  hold_up(world, kTwo, Duration::from_ms(500), kSecond * 28);
  const std::string log = world.log();
  CHECK(says(log,
             "worker 2 'edge-2' has not committed for 10 s; 2 workers wait for it; they go on "
             "without it after 30 s"));
  CHECK(says(log, "worker 2 'edge-2' has not committed for 20 s; 2 workers wait for it"));
  auto said = world.collect();
  CHECK(count<proto::Notice>(said, kZero.peer) == 2);  // its neighbours' logs have the lines, too
  CHECK(newest_members(said, server_peer(0)) == "-");

  hold_up(world, kTwo, Duration::from_ms(500), kSecond * 30);
  CHECK(says(world.log(),
             "worker 2 'edge-2' lost: has not committed for 30 s; 2 workers wait for it"));
  CHECK(newest_members(world.collect(), server_peer(0)) == "0 1");
  CHECK(world.scheduler.members() == 2);
  CHECK(world.scheduler.record().workers[2].fate == "lost");
}

TEST_CASE("watch: a worker that is 30 times as slow as usual, or as the others, is not left out") {
  SchedulerWorld world(watching());
  world.start(3);
  hold_up(world, kTwo, kSecond * 5, kSecond * 150);
  CHECK(world.scheduler.members() == 3);
  CHECK(says(world.log(), "has not committed for 50 s"));
  hold_up(world, kTwo, kSecond * 5, kSecond * 200);
  CHECK(world.scheduler.members() == 2);
}

TEST_CASE("watch: before its first commit a worker has the time of the cluster file") {
  auto options = watching();
  options.watch->first_commit = kSecond * 100;
  SchedulerWorld world(options);
  world.start(3);
  world.from_worker(kTwo, made(1, 0));
  hold_up(world, kTwo, {}, kSecond * 98);
  CHECK(world.scheduler.members() == 3);
  CHECK(says(world.log(), "worker 2 'edge-2' has not committed yet, for 10 s; 2 workers wait"));
  hold_up(world, kTwo, {}, kSecond * 100);
  CHECK(world.scheduler.members() == 2);
}

TEST_CASE("watch: a worker that makes no step at all holds a round for stalled_seconds") {
  SchedulerWorld world(watching());
  world.start(3);
  const auto waited = [&](Duration time) {
    world.now = world.now + kSecond * 2;
    world.from_server(0, telling(awaited(kTwo, time, {})));
    for (const auto& worker : {kZero, kOne}) world.from_worker(worker, made(10, 10));
    world.from_worker(kTwo, made(0, 0));
    world.scheduler.on_wakeup(world.now);
  };
  world.pass(kSecond * 30, {kZero, kOne, kTwo});
  waited(kSecond * 29);
  CHECK(world.scheduler.members() == 3);
  waited(kSecond * 30);
  CHECK(world.scheduler.members() == 2);
}

TEST_CASE("watch: a server that was away has waited for nobody meanwhile") {
  SchedulerWorld world(watching());
  world.start(3);
  const auto away = [&](std::uint32_t index, Duration time) {
    for (const Instant end = world.now + time; world.now < end;) {
      world.now = world.now + kSecond * 2;
      if (index != 0) world.from_server(0, proto::Heartbeat{});
      for (const auto& worker : {kZero, kOne, kTwo}) world.from_worker(worker, made(10, 10));
      world.scheduler.on_wakeup(world.now);
    }
  };
  away(0, kSecond * 40);
  world.from_server(0, telling(awaited(kTwo, kSecond * 40, kSecond * 0.5)));
  CHECK(world.scheduler.members() == 3);
  away(1, kSecond * 28);
  world.from_server(0, telling(awaited(kTwo, kSecond * 68, kSecond * 0.5)));
  CHECK(world.scheduler.members() == 3);
  away(1, kSecond * 2);
  world.from_server(0, telling(awaited(kTwo, kSecond * 70, kSecond * 0.5)));
  CHECK(world.scheduler.members() == 2);
}

TEST_CASE("watch: who was left out, and waits to come back, is told of the end") {
  SchedulerWorld world(watching());
  world.start(3);
  world.from_worker(kTwo, made(10, 10));
  hold_up(world, kTwo, Duration::from_ms(500), kSecond * 30);
  REQUIRE(world.scheduler.members() == 2);
  const auto later = PlayedWorker{3, kTwo.name, 4000, 999};
  for (int i = 0; i < 2; ++i) world.worker_hello(later);
  world.collect();
  world.scheduler.stop(world.now, "target reached");
  CHECK(count<proto::Stop>(world.collect(), later.peer) == 1);
}

TEST_CASE("watch: stalled_seconds = 0 leaves nobody out") {
  auto options = watching();
  options.watch->stalled = {};
  SchedulerWorld world(options);
  world.start(3);
  hold_up(world, kTwo, Duration::from_ms(500), kSecond * 300);
  CHECK(world.scheduler.members() == 3);
  CHECK(says(world.log(), "has not committed for 10 s; 2 workers wait for it\n"));
}

TEST_CASE("watch: who was left out comes back when it has made a step, and not at once") {
  SchedulerWorld world(watching());
  world.start(3);
  world.from_worker(kTwo, made(10, 10));
  hold_up(world, kTwo, Duration::from_ms(500), kSecond * 30);
  REQUIRE(world.scheduler.members() == 2);
  world.collect();
  const auto again = PlayedWorker{2, kTwo.name, kTwo.incarnation + 1, kTwo.peer};
  // It only heartbeats: it is not answered. Neither is its Hello, by more than a sign of life.
  world.pass(kSecond * 15, {kZero, kOne});
  world.collect();
  world.from_worker(kTwo, made(10, 10));
  CHECK(world.collect().empty());
  world.from_worker(again, proto::Hello{again.name, 10, ""});
  CHECK(count<proto::Heartbeat>(world.collect(), again.peer) == 1);
  CHECK(world.scheduler.members() == 2);
  world.from_worker(kTwo, made(11, 10));
  CHECK(world.collect().empty());  // too soon
  world.pass(kSecond * 15, {kZero, kOne});
  world.from_worker(kTwo, made(10, 10));
  CHECK(count<proto::Refusal>(world.collect(), again.peer) == 0);  // no progress
  world.from_worker(kTwo, made(11, 10));
  CHECK(bodies<proto::Refusal>(world.collect(), again.peer).at(0).code == RefusalCode::NotMember);
  world.from_worker(again, proto::Hello{again.name, 10, ""});
  CHECK(world.scheduler.members() == 3);
}

TEST_CASE("watch: a worker without a commit for long is named under every model, once a doubling") {
  SchedulerWorld world(watching());
  world.start(3);
  std::uint64_t commits = 0;
  const auto pass = [&](Duration time, bool all) {
    for (const Instant end = world.now + time; world.now < end;) {
      world.now = world.now + kSecond;
      ++commits;
      world.from_server(0, proto::Heartbeat{});
      for (const auto& worker : {kZero, kOne}) world.from_worker(worker, made(commits, commits));
      world.from_worker(kTwo, made(commits, all ? commits : 20));
      world.scheduler.on_wakeup(world.now);
    }
  };
  pass(kSecond * 20, true);
  world.log();
  pass(kSecond * 100, false);
  const std::string log = world.log();
  CHECK(says(log, "worker 2 'edge-2' has not committed for 30 s; its usual time is 1 s"));
  CHECK(says(log, "worker 2 'edge-2' has not committed for 60 s"));
  CHECK_FALSE(says(log, "90 s"));
  CHECK_FALSE(says(log, "edge-1"));
  pass(kSecond * 2, true);
  CHECK(says(world.log(), "worker 2 'edge-2' commits again, after 101 s"));
  CHECK(world.scheduler.members() == 3);
}

TEST_CASE("watch: who is refused again and again is set aside, told why, and may start again") {
  SchedulerWorld world(watching());
  world.start(3);
  world.from_server(0, telling(refused(kTwo, 9, 30)));
  CHECK(world.scheduler.members() == 3);
  world.from_server(0, telling(refused(kTwo, 10, 30)));
  CHECK(world.scheduler.members() == 2);
  const std::string why = "10 commits in a row were refused (too large 10)";
  CHECK(says(world.log(), "worker 2 'edge-2' set aside: " + why));
  const auto told = bodies<proto::Refusal>(world.collect(), kTwo.peer);
  REQUIRE(told.size() == 1);
  CHECK(told[0].code == RefusalCode::SetAside);
  CHECK(told[0].message == "worker 2 'edge-2' is set aside: " + why +
                               "; look at its data and its machine, and restart it to join again");
  const auto record = world.scheduler.record();
  CHECK(record.workers[2].fate == "set aside");
  CHECK(record.workers[2].refused == RefusedByReason{0, 10, 0, 0});
  CHECK(record.refused_commits == 10);
  // The same process does not join again, by no word.
  world.from_worker(kTwo, made(1, 1));
  world.from_worker(kTwo, proto::Hello{kTwo.name, 10, ""});
  world.hear(kTwo.peer, {proto::Role::Worker, 0}, kTwo.incarnation + 1,
             proto::Hello{kTwo.name, 10, ""});
  for (const auto& refusal : bodies<proto::Refusal>(world.collect(), kTwo.peer))
    CHECK(refusal.code == RefusalCode::SetAside);
  CHECK(world.scheduler.members() == 2);
  world.hear(300, {proto::Role::Worker, 0}, 5000, proto::Hello{kTwo.name, 10, ""});
  CHECK(world.scheduler.members() == 3);
}

// Both workers join again, and both say that they have the new list.
void settle(SchedulerWorld& world, std::uint32_t lives, const std::vector<PlayedWorker>& workers) {
  for (const auto& worker : workers) {
    proto::Hello hello{worker.name, 10, ""};
    hello.again = true;
    world.hear(worker.peer, {proto::Role::Worker, worker.index}, worker.incarnation + lives, hello);
  }
  world.collect();
  world.ack(0);
  world.collect();
}

proto::Heartbeat broken() {
  proto::Heartbeat beat;
  beat.broken = true;
  return beat;
}

TEST_CASE("setback: broken parameters lead all shards back to the snapshot that all have") {
  SchedulerWorld world(watching());
  world.start(3);
  world.pass(kSecond * 30, {kZero, kOne, kTwo});
  world.from_server(0, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 1});
  world.pass(kSecond * 12, {kZero, kOne, kTwo});
  world.collect();
  world.log();
  world.from_server(0, broken());
  const std::string line =
      "the parameters of server 0 'shard-0' are not finite: all shards go back to their snapshot "
      "of "
      "42 s ago";
  CHECK(says(world.log(), line));
  const auto said = world.collect();
  const auto lists = bodies<proto::Members>(said, server_peer(0));
  REQUIRE_FALSE(lists.empty());
  CHECK(lists.back().members.empty());
  CHECK(lists.back().setbacks == 1);
  CHECK(lists.back().back_to == 1);
  for (const auto& worker : {kZero, kOne, kTwo}) {
    const auto notices = bodies<proto::Notice>(said, worker.peer);
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].rejoin);
    CHECK(notices[0].text == line);
  }
  // What was on its way says nothing of the parameters that there will be.
  world.from_server(0, broken());
  CHECK(world.log().empty());
  settle(world, 1, {kZero, kOne, kTwo});
  CHECK(world.scheduler.members() == 3);
  CHECK(world.scheduler.record().setbacks == 1);
  // Snapshot 2 was ordered before, and is of no use to a server that is started again.
  proto::Hello hello{"shard-0", 10, "tcp://10.0.0.9:1"};
  hello.snapshots = {{1, 1, 10}, {1, 2, 20}};
  world.hear(300, {proto::Role::Server, 0}, 999, hello);
  const auto welcomes = bodies<proto::Welcome>(world.collect(), 300);
  REQUIRE(welcomes.size() == 1);
  CHECK(welcomes[0].snapshot == 1);
  CHECK(welcomes[0].setbacks == 1);
}

TEST_CASE("setback: the third one within ten minutes ends the run with an error that says so") {
  SchedulerWorld world(watching());
  world.start(3);
  for (std::uint32_t time = 1; time <= 2; ++time) {
    world.from_server(0, broken());
    CHECK(world.scheduler.record().setbacks == time);
    settle(world, time, {kZero, kOne, kTwo});
    world.now = world.now + kSecond;
  }
  world.from_server(0, broken());
  REQUIRE(world.scheduler.stopped());
  CHECK(world.scheduler.failed());
  CHECK(
      says(*world.scheduler.stopped(),
           "the parameters of server 0 'shard-0' are not finite, the 3rd time within 10 minutes"));
}

TEST_CASE("setback: a loss that is not finite, twice in a row, by the evaluator") {
  SchedulerWorld world(watching());
  world.start(3);
  const auto evaluate = [&](double loss) {
    world.now = world.now + kSecond;
    world.from_evaluator(proto::Evaluation{.age = Duration::from_ms(1), .loss = loss});
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  evaluate(nan);
  evaluate(0.5);
  evaluate(std::numeric_limits<double>::infinity());
  CHECK(world.scheduler.record().setbacks == 0);
  evaluate(nan);
  CHECK(world.scheduler.record().setbacks == 1);
  CHECK(says(world.log(),
             "the loss was not finite twice in a row: all shards go back to their "
             "beginning, or to what they have kept"));
  settle(world, 1, {kZero, kOne, kTwo});
  // One that was measured on parameters of before does not count.
  world.from_evaluator(proto::Evaluation{.age = kSecond * 5, .loss = nan});
  evaluate(nan);
  CHECK(world.scheduler.record().setbacks == 1);
}

TEST_CASE("setback: one worker that says its loss is not finite changes nothing") {
  auto options = watching();
  options.evaluations = SchedulerOptions::Evaluations::Training;
  SchedulerWorld world(options);
  world.start(3);
  std::uint64_t steps = 0;
  const auto pass = [&](std::size_t broken) {
    for (int second = 0; second < 20; ++second) {
      world.now = world.now + kSecond;
      world.from_server(0, proto::Heartbeat{});
      ++steps;
      for (const auto& worker : {kZero, kOne, kTwo}) {
        const bool is_broken = worker.index < broken;
        world.from_worker(
            worker, with_loss(steps, is_broken ? std::numeric_limits<double>::quiet_NaN() : 0.5));
      }
      world.scheduler.on_wakeup(world.now);
    }
  };
  pass(1);
  CHECK(world.scheduler.record().setbacks == 0);
  CHECK(world.scheduler.last_evaluation()->loss == 0.5);
  pass(3);
  CHECK(world.scheduler.record().setbacks == 1);
}

TEST_CASE("watch: an absurd loss of one worker is left out of the mean, and said once") {
  auto options = watching();
  options.evaluations = SchedulerOptions::Evaluations::Training;
  SchedulerWorld world(options);
  world.start(3);
  std::uint64_t steps = 0;
  const auto pass = [&](std::vector<double> losses) {
    world.now = world.now + kSecond * 20;
    ++steps;
    for (const auto& worker : {kZero, kOne, kTwo}) {
      if (worker.index < losses.size())
        world.from_worker(worker, with_loss(steps, losses[worker.index]));
    }
    world.scheduler.on_wakeup(world.now);
    const auto last = world.scheduler.last_evaluation();
    return last ? last->loss : -1;
  };
  CHECK(pass({1e300}) == -1);  // before the others have said theirs
  CHECK(says(world.log(), "worker 0 'edge-0' reports a loss of 1e+300: its figures are left out"));
  CHECK(pass({1e300, 0.5, 1.5}) == 1);
  CHECK(pass({-1e300, 0.5, 0.25}) == 0.375);
  CHECK(pass({1001, 0.5, 0.25}) == 0.375);
  CHECK_FALSE(says(world.log(), "reports a loss"));  // it was said
  CHECK(pass({999, 0.5, 0.5}) == doctest::Approx(1000.0 / 3));
  // What most have is usual.
  CHECK(pass({3e6, 3e6, 0}) == 2e6);
}

TEST_CASE("watch: the losses of more samples than a worker's steps had do not count") {
  auto options = watching();
  options.evaluations = SchedulerOptions::Evaluations::Training;
  options.batch = 10;
  SchedulerWorld world(options);
  world.start(3);
  // Returns: the mean loss. Two workers have made 1,000 steps each; the third, `steps` of them.
  std::uint64_t all = 0;
  const auto pass = [&](double loss, std::uint64_t steps, std::uint64_t samples, int times) {
    world.now = world.now + kSecond * 20;
    all += 1'000;
    for (const auto& worker : {kZero, kOne}) {
      proto::Progress honest = with_loss(all, 1);
      honest.loss_samples = 10'000;
      world.from_worker(worker, honest);
    }
    proto::Progress liar = with_loss(steps, loss);
    liar.loss_samples = samples;
    for (int i = 0; i < times; ++i) world.from_worker(kTwo, liar);
    world.scheduler.on_wakeup(world.now);
    return world.scheduler.last_evaluation()->loss;
  };
  const std::string said = "worker 2 'edge-2' reports the loss of 9007199254740992 samples: 740";
  // 64 steps may have been before it joined: 10 x (10 + 64) samples count, however often it says
  // so.
  CHECK(pass(2, 10, proto::kNumberMax, 5'000) ==
        doctest::Approx((20'000 + 2 * 740.0) / 20'740).epsilon(1e-12));
  CHECK(says(world.log(), said));
  CHECK(pass(2, 10, proto::kNumberMax, 5'000) == 1);
  CHECK(pass(999, 11, proto::kNumberMax, 5'000) ==
        doctest::Approx((20'000 + 999 * 10.0) / 20'010).epsilon(1e-12));
  CHECK_FALSE(says(world.log(), "edge-2"));  // it was said
  CHECK(pass(3, 1'011, 10'000, 1) == doctest::Approx((20'000 + 3 * 10'000.0) / 30'000));
  world.scheduler.stop(world.now, "enough");
  CHECK(world.scheduler.record().commits == 8'000 + 1'011);
}

TEST_CASE("watch: counts that servers and workers say again and again do not overflow") {
  SchedulerWorld world(watching());
  world.start(3);
  auto standing = refused(kTwo, 1, 1);
  for (int i = 0; i < 5'000; ++i) {
    standing.refused[1] = i % 2 == 0 ? proto::kNumberMax : 0;
    world.from_server(0, telling(standing));
  }
  CHECK(world.scheduler.record().refused[1] == ~std::uint64_t{0});
  for (const auto& worker : {kZero, kOne, kTwo}) {
    proto::Progress progress = made(1, 1);
    progress.bytes_up = proto::kNumberMax;
    world.from_worker(worker, progress);
  }
  CHECK(world.scheduler.record().bytes_up == 3 * proto::kNumberMax);
}

TEST_CASE("watch: absurd figures of one worker's own evaluation are left out") {
  const proto::Evaluation good{.age = {},
                               .loss = 0.5,
                               .accuracy = 0.75,
                               .samples = 10,
                               .squared_error = 0.5,
                               .target_mean = 0.5,
                               .target_square = 1.25};
  std::vector<proto::Evaluation> wrong(7, good);
  wrong[0].loss = 1e300;
  wrong[1].loss = -1;
  wrong[2].accuracy = 1e9;
  wrong[3].target_square = 1e300;
  wrong[4].target_mean = -1e300;
  wrong[5].accuracy = std::numeric_limits<double>::infinity();
  wrong[6].squared_error = 1e300;
  for (const auto& lie : wrong) {
    CAPTURE(&lie - wrong.data());
    auto options = watching();
    options.evaluations = SchedulerOptions::Evaluations::Workers;
    SchedulerWorld world(options);
    world.start(3);
    for (const auto& worker : {kZero, kOne}) world.from_worker(worker, good);
    world.from_worker(kTwo, lie);
    world.now = world.now + options.evaluation_interval;
    world.scheduler.on_wakeup(world.now);
    CHECK(world.scheduler.record().final_loss == 0.5);
    CHECK(world.scheduler.record().final_accuracy == 0.75);
    CHECK(says(world.log(), "worker 2 'edge-2' reports a loss of "));
  }
}

TEST_CASE("watch: who measures a loss alone counts by it, and accuracy is that of the others") {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto measured = [](double loss, double accuracy) {
    proto::Evaluation evaluation;
    evaluation.loss = loss;
    evaluation.accuracy = accuracy;
    evaluation.samples = 10;
    return evaluation;
  };
  for (const double others : {0.75, none}) {
    auto options = watching();
    options.evaluations = SchedulerOptions::Evaluations::Workers;
    SchedulerWorld world(options);
    world.start(3);
    for (const auto& worker : {kZero, kOne}) world.from_worker(worker, measured(0.5, others));
    world.from_worker(kTwo, measured(0.8, none));
    world.now = world.now + options.evaluation_interval;
    world.scheduler.on_wakeup(world.now);
    CHECK(world.scheduler.record().final_loss == doctest::Approx(0.6));
    const double accuracy = world.scheduler.record().final_accuracy;
    CHECK((std::isnan(others) ? std::isnan(accuracy) : accuracy == others));
    CHECK_FALSE(says(world.log(), "reports a loss of "));
  }
}

TEST_CASE("setback: when everybody's commits are refused, it is not the worker") {
  SchedulerWorld world(watching());
  world.start(3);
  world.from_server(0, telling(refused(kTwo, 20, 0)));
  CHECK(world.scheduler.members() == 3);
  CHECK(world.scheduler.record().setbacks == 0);  // the others may be slow
  world.pass(kSecond * 31, {kZero, kOne, kTwo});
  world.from_server(0, telling(refused(kTwo, 90, 0)));
  CHECK(world.scheduler.members() == 3);
  CHECK(world.scheduler.record().setbacks == 1);
  CHECK(says(world.log(),
             "of worker 2 'edge-2', 90 commits in a row were refused (too large 90), and "
             "no other worker's was applied: all shards go back"));
}

TEST_CASE("watch: without it nothing of this happens, as on virtual time") {
  SchedulerWorld world(some_options(1, 3));
  world.start(3);
  world.from_server(0, telling(refused(kTwo, 20, 30)));
  world.from_server(0, telling(awaited(kTwo, kSecond * 4000, kSecond)));
  world.from_server(0, broken());
  CHECK(world.scheduler.members() == 3);
  CHECK(world.scheduler.record().setbacks == 0);
}

TEST_CASE("a worker's totals only grow, and no faster than any worker trains") {
  SchedulerWorld world;
  world.start();
  world.from_worker(kZero, made(100, 10));
  for (const auto& claim : {made(99, 10), made(100, 9), made(std::uint64_t{1} << 53, 10)}) {
    world.from_worker(kZero, claim);
    CHECK(bodies<proto::Refusal>(world.collect(), kZero.peer).at(0).code ==
          RefusalCode::BadMessage);
  }
  CHECK(world.scheduler.steps() == 100);
  CHECK(world.scheduler.commits() == 10);
}

}  // namespace
}  // namespace rubato::scheduler
