// Golden traces of ADSP's commit rule, Gamma = 60 s.
#include "sync/adsp.hpp"

#include <doctest/doctest.h>

#include "sync/local_steps.hpp"
#include "sync/semi_sync.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {
namespace {

constexpr Duration kGamma = Duration::from_seconds(60);

}  // namespace

TEST_CASE("BSP, ASP and SSP commit after every step") {
  LocalSteps rule(1);
  const std::string trace = R"(
0 start
1 step -> commit
1 sent
2 reply 1
3 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("one commit a check period at first, at the first mini-batch end at or after it") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
10 start
40 step -> train on
69.9 step -> train on
70 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("the commit overhead is taken off the interval, averaged with factor 0.5 from 0") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
0 start
0 rate 6
10 step -> commit
10 sent
14 reply 4
21.9 step -> train on
22 step -> commit
22 sent
26 reply 4
32.9 step -> train on
33 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

// Servers may come back more often than a worker commits.
TEST_CASE("a return does not begin the interval anew, and what was due is due") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
0 start
30 step -> train on
31 return
50 return
59.9 step -> train on
60 step -> commit
60 sent
62 return
63 step -> commit
63 sent
64 reply 1
90 return
120 step -> train on
120.5 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("a period and a number of steps go on after a return, unless the update is dropped") {
  CommitPeriod period;
  period.on_directive(Instant{}, {.period = kGamma});
  const std::string timed = R"(
0 start
50 return
59 step -> train on
60 step -> commit
)";
  CHECK(replay_rule(period, timed) == timed);
  LocalSteps steps(3);
  const std::string counted = R"(
0 start
1 step -> train on
2 return
3 step -> train on
4 start
5 step -> train on
6 step -> train on
7 return
8 step -> commit
)";
  CHECK(replay_rule(steps, counted) == counted);
}

TEST_CASE("lateness is taken off the next interval, so that counts do not drift") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
0 start
0 rate 6
9 step -> train on
13 step -> commit
13 sent
13 reply 0
19 step -> train on
20 step -> commit
20 sent
20 reply 0
29 step -> train on
30 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("lateness beyond one interval is forgotten") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
0 start
0 rate 6
100 step -> commit
100 sent
100 reply 0
100 step -> commit
100 sent
100 reply 0
109 step -> train on
110 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("a new rate moves the due time, still counted from the last reply") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
0 start
20 step -> train on
20 rate 3
21 step -> commit
21 sent
21 reply 0
30 rate 1
50 step -> train on
80 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("directives every check period do not starve a worker that commits once in it") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
0 start
0 rate 1
59 step -> train on
60 rate 2
61 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("an interval at or below 0 means every mini-batch") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
0 start
0 rate 60
1 step -> commit
1 sent
9 reply 8
9.1 step -> commit
9.1 sent
17.1 reply 8
17.2 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

TEST_CASE("a due commit that could not be sent is asked for again, one in flight is enough") {
  AdspRule rule(kGamma);
  const std::string trace = R"(
0 start
0 rate 60
1 step -> commit
2 step -> commit
2 sent
3 step -> train on
9 step -> train on
10 reply 8
11 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);
}

}  // namespace rubato::sync
