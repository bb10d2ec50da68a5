// Hero SGD: who is the fastest, and whose commits count.
#include <doctest/doctest.h>

#include "tests/sync/steady_workers.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE(
    "hero-sgd: a first commit tells a speed alone, then the hero's are applied, others held") {
  const auto gate = gate_of("hero-sgd");
  const std::string trace = R"(
join 0 1 2
commit 1 -> release 1
commit 0 -> release 0
phase 2
commit 1 -> collect 1 x 1; flush; release 1
commit 0
commit 1 -> collect 1 x 1; flush; release 1
commit 2 -> release 2
commit 2
phase 1 -> release 0
commit 1
commit 0 -> collect 0 x 1; flush; release 0
leave 0
phase 3 -> release 2
commit 2 -> collect 2 x 1; flush; release 2
join 3
commit 3 -> release 3
commit 3
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

TEST_CASE("hero-sgd: the fastest that is known, until somebody is faster by a tenth or it leaves") {
  const auto tuner = make_tuner("hero-sgd", {}, {});
  const std::string trace = R"(
0 start
0 join 0
0 join 1
0 join 2
3 progress 1 1 3 0 -> R=1 "the fastest: 3 s a step"
4 progress 0 1 2.8 0
5 progress 2 1 2 0 -> R=2 "the fastest: 2 s a step"
6 progress 2 2 2.1 0
7 progress 2 3 4 0 -> R=0 "the fastest: 2.8 s a step"
8 leave 0 -> R=1 "the fastest: 3 s a step"
9 leave 2
10 leave 1
)";
  CHECK(replay_tuner(*tuner, trace) == trace);
  CHECK(tuner->phase().number == 2);
}

}  // namespace rubato::sync
