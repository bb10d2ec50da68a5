// Records and memory between the virtual cluster and the process of a worker.
#include "emulation/step_channel.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

namespace rubato::emulation::step_channel_tests {
namespace {

using Kind = StepRecord::Kind;

struct Ends {
  StepChannel near;
  StepChannel far;
  Ends() {
    auto made = StepChannel::make();
    REQUIRE(made.has_value());
    near = std::move(made->first);
    far = StepChannel(made->second);
  }
};

TEST_CASE("step channel: records arrive whole and in order, both ways") {
  const Ends ends;
  CHECK_FALSE(ends.far.receive({})->has_value());
  REQUIRE(ends.near.send({.kind = Kind::Train, .batch = 7, .rate = 0.25}));
  REQUIRE(ends.near.send({.kind = Kind::Over}));
  const auto first = ends.far.receive(Duration::from_seconds(5));
  REQUIRE(first.has_value());
  REQUIRE(first->has_value());
  CHECK((*first)->kind == Kind::Train);
  CHECK((*first)->batch == 7);
  CHECK((*first)->rate == 0.25);
  CHECK((*ends.far.receive({}))->kind == Kind::Over);
  REQUIRE(ends.far.send({.kind = Kind::Done, .loss = 3}));
  CHECK((*ends.near.receive({}))->loss == 3);
}

TEST_CASE("step channel: the last words of an end that is gone are heard, then that it is gone") {
  Ends ends;
  REQUIRE(ends.near.send({.kind = Kind::Train}));  // is not read
  REQUIRE(ends.far.send({.kind = Kind::Done, .loss = 3}));
  ends.far.close();
  CHECK((*ends.near.receive({}))->loss == 3);
  const auto gone = ends.near.receive({});
  REQUIRE_FALSE(gone.has_value());
  CHECK(gone.error().code == ErrorCode::Gone);
  CHECK(ends.near.send({}).error().code == ErrorCode::Gone);
}

TEST_CASE("step channel: what no end of ours says is refused") {
  const Ends ends;
  const char word[] = "hello";
  REQUIRE(::send(ends.far.descriptor(), word, sizeof word, 0) == sizeof word);
  CHECK(ends.near.receive({}).error().code == ErrorCode::Corrupt);
  StepRecord strange;
  strange.kind = static_cast<Kind>(99);
  REQUIRE(ends.far.send(strange));
  CHECK(ends.near.receive({}).error().code == ErrorCode::Corrupt);
}

TEST_CASE("step channel: memory that is passed is the same memory") {
  const Ends ends;
  auto made = SharedVector::make(3, "a table");
  REQUIRE(made.has_value());
  made->floats()[1] = 5;
  REQUIRE(
      ends.far.send({.kind = Kind::Table, .parameters = 3, .text_bytes = 7}, made->descriptor()));
  int passed = -1;
  REQUIRE((*ends.near.receive({}, &passed))->parameters == 3);
  REQUIRE(passed >= 0);
  const auto mapped = SharedVector::map(passed, 3, 7);
  REQUIRE(mapped.has_value());
  CHECK(mapped->text() == "a table");
  CHECK(mapped->floats()[1] == 5);
  mapped->floats()[2] = 9;
  CHECK(made->floats()[2] == 9);
}

TEST_CASE("step channel: memory of another size is refused") {
  auto made = SharedVector::make(3, "a table");
  REQUIRE(made.has_value());
  for (const std::uint64_t floats : {std::uint64_t{2}, std::uint64_t{4}, std::uint64_t{1} << 62}) {
    const auto mapped = SharedVector::map(::dup(made->descriptor()), floats, 7);
    REQUIRE_FALSE(mapped.has_value());
    CHECK(mapped.error().code == ErrorCode::Corrupt);
  }
  // One whose other end may shrink it.
  const int open = ::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(::ftruncate(open, 4) == 0);
  CHECK_FALSE(SharedVector::map(open, 1, 0).has_value());
  // No descriptor came.
  CHECK_FALSE(SharedVector::map(-1, 3, 7).has_value());
}

TEST_CASE("step channel: a descriptor that nobody wants is closed") {
  const Ends ends;
  auto made = SharedVector::make(1, "");
  REQUIRE(made.has_value());
  const int before = ::dup(0);
  ::close(before);
  REQUIRE(ends.far.send({.kind = Kind::Done}, made->descriptor()));
  REQUIRE(ends.near.receive({}).has_value());
  const int after = ::dup(0);
  ::close(after);
  CHECK(after == before);
}

}  // namespace
}  // namespace rubato::emulation::step_channel_tests
