// Golden traces of the three gates.
#include <doctest/doctest.h>

#include "sync/barrier.hpp"
#include "sync/immediate_gate.hpp"
#include "sync/ssp.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("BSP applies a round in worker-id order when all have arrived, then releases all") {
  BarrierGate gate;
  const std::string trace = R"(
join 0 1 2
commit 2
commit 0
commit 1 -> apply 0 1 2; release 0 1 2
commit 0
commit 1
commit 2 -> apply 0 1 2; release 0 1 2
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("a round may be one update: the mean of its commits, summed in worker-id order") {
  BarrierGate gate(BarrierGate::Round::Mean);
  const std::string trace = R"(
join 0 1 2
commit 2
commit 0
commit 1 -> collect 0 x 1; collect 1 x 1; collect 2 x 1; flush; release 0 1 2
commit 1
commit 0
leave 1
leave 2 -> collect 0 x 1; flush; release 0
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("BSP: a round closes over the members that remain") {
  BarrierGate gate;
  const std::string trace = R"(
join 0 1 2
commit 0
commit 1
leave 2 -> apply 0 1; release 0 1
commit 1
leave 1
commit 0 -> apply 0; release 0
leave 0
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("BSP: the round in progress waits for a joiner") {
  BarrierGate gate;
  const std::string trace = R"(
join 0 1
commit 0
join 2
commit 1
commit 2 -> apply 0 1 2; release 0 1 2
)";
  CHECK(replay_gate(gate, trace) == trace);
}

// Another shard was in round 2 when worker 2 joined; this one in round 0.
TEST_CASE(
    "BSP: a joiner begins in the round that another shard named, and rounds before do without") {
  BarrierGate gate;
  const Instant now;
  for (const std::uint32_t id : {0, 1, 2}) gate.on_join(now, WorkerId{id});
  using Workers = std::vector<WorkerId>;
  CHECK(gate.on_commit(now, WorkerId{0}).apply.empty());
  gate.on_first_commit(WorkerId{2}, 2);
  CHECK(gate.on_commit(now, WorkerId{2}).apply.empty());
  for (const std::uint64_t round : {0, 1}) {
    CHECK(gate.round() == round);
    if (round > 0) CHECK(gate.on_commit(now, WorkerId{0}).apply.empty());
    CHECK(gate.on_commit(now, WorkerId{1}).apply == Workers{WorkerId{0}, WorkerId{1}});
  }
  CHECK(gate.on_commit(now, WorkerId{1}).apply.empty());
  CHECK(gate.on_commit(now, WorkerId{0}).apply == Workers{WorkerId{0}, WorkerId{1}, WorkerId{2}});
  CHECK(gate.round() == 3);
  // A shard that begins anew: nobody is in its round, so the next that somebody is in opens.
  BarrierGate young;
  for (const std::uint32_t id : {0, 1}) young.on_join(now, WorkerId{id});
  young.on_first_commit(WorkerId{1}, 7);
  CHECK(young.on_commit(now, WorkerId{1}).apply.empty());
  young.on_first_commit(WorkerId{0}, 6);
  CHECK(young.on_commit(now, WorkerId{0}).apply == Workers{WorkerId{0}});
  CHECK(young.on_commit(now, WorkerId{0}).apply == Workers{WorkerId{0}, WorkerId{1}});
  CHECK(young.round() == 8);
}

TEST_CASE("SSP: a joiner begins at the count that another shard named") {
  SspGate gate(0);
  const Instant now;
  for (const std::uint32_t id : {0, 1}) gate.on_join(now, WorkerId{id});
  using Workers = std::vector<WorkerId>;
  gate.on_first_commit(WorkerId{1}, 1);
  CHECK(gate.on_commit(now, WorkerId{1}).release.empty());  // at 2, and worker 0 at 0
  CHECK(gate.on_commit(now, WorkerId{0}).release == Workers{WorkerId{0}});
  CHECK(gate.on_commit(now, WorkerId{0}).release == Workers{WorkerId{0}, WorkerId{1}});
  CHECK(gate.round() == 2);
}

TEST_CASE("ASP applies and releases at once") {
  ImmediateGate gate;
  const std::string trace = R"(
join 0 1
commit 1 -> apply 1; release 1
commit 1 -> apply 1; release 1
leave 1
commit 0 -> apply 0; release 0
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("SSP(1) holds who is more than one commit ahead of the slowest") {
  SspGate gate(1);
  const std::string trace = R"(
join 0 1 2
commit 0 -> apply 0; release 0
commit 0 -> apply 0
commit 1 -> apply 1; release 1
commit 1 -> apply 1
commit 2 -> apply 2; release 0 1 2
commit 2 -> apply 2; release 2
commit 2 -> apply 2; release 2
commit 2 -> apply 2
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("SSP(0) keeps the pace of BSP but applies at once") {
  SspGate gate(0);
  const std::string trace = R"(
join 0 1 2
commit 2 -> apply 2
commit 0 -> apply 0
commit 1 -> apply 1; release 0 1 2
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("SSP: the departure of the slowest releases all that it held up") {
  SspGate gate(0);
  const std::string trace = R"(
join 0 1 2
commit 2 -> apply 2
commit 0 -> apply 0
leave 1 -> release 0 2
leave 0
commit 2 -> apply 2; release 2
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("SSP: a joiner starts at the current minimum, so it holds nobody up at once") {
  SspGate gate(1);
  const std::string trace = R"(
join 0 1
commit 0 -> apply 0; release 0
commit 1 -> apply 1; release 1
commit 0 -> apply 0; release 0
join 2
commit 0 -> apply 0
commit 1 -> apply 1; release 1
commit 2 -> apply 2; release 0 2
)";
  CHECK(replay_gate(gate, trace) == trace);
}

}  // namespace rubato::sync
