// Golden traces and paper claims of the models that commit every so many steps or seconds.
#include <doctest/doctest.h>

#include "sync/adacomm.hpp"
#include "sync/dylu.hpp"
#include "sync/keeping_gate.hpp"
#include "sync/local_steps.hpp"
#include "sync/semi_sync.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("local steps: every tau-th mini-batch is a commit, and a new tau holds at once") {
  LocalSteps rule(3);
  const std::string trace = R"(
0 start
1 step -> train on
2 step -> train on
3 step -> commit
3 sent
4 reply 1
5 step -> train on
5 steps 2
6 step -> commit
6 sent
7 steps 0
8 step -> train on
9 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("local steps: a commit that cannot leave yet stays due") {
  LocalSteps rule(2);
  const std::string trace = R"(
0 start
1 step -> train on
2 step -> commit
3 step -> commit
3 sent
4 step -> train on
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("semi-sync: a worker commits a period after the last reply, every step until it is set") {
  CommitPeriod rule;
  const std::string trace = R"(
0 start
1 step -> commit
1 sent
2 reply 1
2 period 2.5
3 step -> train on
4 step -> train on
5 step -> commit
5 sent
6 reply 1
8 step -> train on
9 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

// arXiv 1810.08313, equation 18 with the refinement of equation 19: tau follows the square root of
// the loss, and is halved when that would not lower it.
TEST_CASE("ADACOMM: tau follows the square root of the loss, is halved on a plateau, never rises") {
  AdacommTuner tuner({.local_steps = 20, .period = Duration::from_seconds(60)});
  const std::string trace = R"(
0 join 0 -> 0:20 steps
0 start -> R=20 "as given"
30 eval 2
50 eval 4
60 wakeup -> R=10 "loss 3.0000 (3.0000 at the start) asks for 20.0, halved instead"; 0:10 steps
90 eval 0.75
120 wakeup -> R=5 "loss 0.7500 (3.0000 at the start) asks for 10.0, halved instead"; 0:5 steps
150 eval 0.12
180 wakeup -> R=4 "loss 0.1200 (3.0000 at the start) asks for 4.0"; 0:4 steps
190 leave 0
190 join 2 -> 2:4 steps
210 eval 12
240 wakeup -> R=2 "loss 12.0000 (3.0000 at the start) asks for 40.0, halved instead"; 2:2 steps
300 wakeup
310 eval 3
360 wakeup -> R=1 "loss 3.0000 (3.0000 at the start) asks for 20.0, halved instead"; 2:1 steps
370 eval 3
420 wakeup
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE(
    "ADACOMM, search: each first tau is tried for a period, the one with the lowest loss wins") {
  AdacommTuner tuner({.local_steps = 7,
                      .period = Duration::from_seconds(60),
                      .stuck = Stuck::Keep,
                      .search = true});
  const std::string trace = R"(
0 join 0 -> 0:7 steps
0 start -> R=100 "tried for one period"; 0:100 steps
60 wakeup -> R=80 "tried for one period"; 0:80 steps
120 wakeup -> R=60 "tried for one period"; 0:60 steps
130 eval 1
170 eval 3
180 wakeup -> R=40 "tried for one period"; 0:40 steps
239 eval 2
240 wakeup -> R=20 "tried for one period"; 0:20 steps
241 join 1 -> 1:20 steps
299 eval 2.5
300 wakeup -> R=10 "tried for one period"; 0:10 steps 1:10 steps
360 wakeup -> R=5 "tried for one period"; 0:5 steps 1:5 steps
420 wakeup -> R=1 "tried for one period"; 0:1 steps 1:1 steps
479 eval 2.25
480 wakeup -> R=40 "lowest loss after a period: 2.0000"; 0:40 steps 1:40 steps
510 eval 4
540 wakeup
570 eval 1
600 wakeup -> R=20 "loss 1.0000 (4.0000 at the start) asks for 20.0"; 0:20 steps 1:20 steps
)";
  CHECK(replay_tuner(tuner, trace) == trace);
  CHECK(tuner.phase().number == 8 * kRestoreOrder);
}

TEST_CASE("ADACOMM, stuck = keep: tau stays where the loss asks for no smaller one") {
  AdacommTuner tuner(
      {.local_steps = 20, .period = Duration::from_seconds(60), .stuck = Stuck::Keep});
  const std::string trace = R"(
0 join 0 -> 0:20 steps
0 start -> R=20 "as given"
30 eval 4
60 wakeup
90 eval 1
120 wakeup -> R=10 "loss 1.0000 (4.0000 at the start) asks for 10.0"; 0:10 steps
150 eval 1.1
180 wakeup
210 eval 0.36
240 wakeup -> R=6 "loss 0.3600 (4.0000 at the start) asks for 6.0"; 0:6 steps
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE("ADACOMM ignores losses that are not numbers") {
  AdacommTuner tuner({.local_steps = 20, .period = Duration::from_seconds(60)});
  const std::string trace = R"(
0 join 0 -> 0:20 steps
0 start -> R=20 "as given"
30 eval nan
40 eval inf
60 wakeup
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE("semi-sync: the period is lambda epochs of the slowest, and follows speeds and members") {
  // 100 batches in all: 50 steps an epoch for each of two workers.
  SemiSyncTuner tuner({.epochs = 2}, 100);
  const std::string trace = R"(
0 join 0
0 join 1
0 start
1 progress 0 1 0.5 0.1
2 progress 1 1 2 0.1 -> R=200 "slowest of 2: 2.000 s a step, 50 steps an epoch"; 0:200 s 1:200 s
3 progress 0 2 0.6 0.1
4 progress 1 2 2.1 0.1
5 progress 1 3 3 0.1 -> R=300 "slowest of 2: 3.000 s a step, 50 steps an epoch"; 0:300 s 1:300 s
6 leave 1 -> R=120 "slowest of 1: 0.600 s a step, 100 steps an epoch"; 0:120 s
7 join 2 -> 2:120 s
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

// arXiv 2401.09135, Sec. 5: the fastest takes tau steps, a worker of a third of the speed a third.
TEST_CASE("DyLU: local steps in proportion to speed, at least one, deaf to jitter") {
  DyluTuner tuner({.local_steps = 30});
  const std::string trace = R"(
0 join 0
0 start
1 progress 0 1 0.5 0.1 -> R=30 "worker 0 runs at 100 % of the fastest"; 0:30 steps
1 join 1
2 progress 0 2 0.5 0.1
2 progress 1 1 1.5 0.1 -> R=10 "worker 1 runs at 33 % of the fastest"; 1:10 steps
3 join 2
3 progress 2 1 60 0.1 -> R=1 "worker 2 runs at 1 % of the fastest"; 2:1 steps
4 progress 0 3 0.52 0.1
5 progress 1 2 1.55 0.1
6 progress 1 3 1.0 0.1 -> R=15 "worker 1 runs at 52 % of the fastest"; 1:15 steps
7 leave 0 -> R=30 "worker 1 runs at 100 % of the fastest"; 1:30 steps
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE("DyLU makes the commit intervals of unequal workers equal") {
  DyluTuner tuner({.local_steps = 40});
  const double step_seconds[] = {0.4, 0.5, 0.8, 1.6};
  for (std::uint32_t id = 0; id < 4; ++id) tuner.on_join({}, {id});
  for (std::uint32_t id = 0; id < 4; ++id)
    tuner.on_progress({}, {id},
                      {.steps = 1,
                       .commits = 1,
                       .step_time = Duration::from_seconds(step_seconds[id]),
                       .overhead = {}});
  int orders = 0;
  while (const auto order = tuner.poll_order()) {
    ++orders;
    CHECK(order->directive.local_steps * step_seconds[order->worker.value] ==
          doctest::Approx(40 * 0.4));
  }
  CHECK(orders == 4);
}

}  // namespace rubato::sync
