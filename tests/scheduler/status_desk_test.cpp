// StatusDesk: rates over a window, and a flood of questions.
#include "scheduler/status_desk.hpp"

#include <doctest/doctest.h>

namespace rubato::scheduler::status_desk_tests {
namespace {

constexpr WorkerId kZero{0};

Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

proto::Progress total(std::uint64_t steps, std::uint64_t bytes_up) {
  proto::Progress all;
  all.steps = steps;
  all.bytes_up = bytes_up;
  return all;
}

TEST_CASE("status desk: rates are those of the last window") {
  StatusDesk desk;
  desk.on_join(at(100));
  desk.on_progress(at(104), kZero, total(40, 400));
  CHECK(desk.pace(kZero).steps == 0);
  desk.on_progress(at(105), kZero, total(50, 1000));
  CHECK(desk.pace(kZero).steps == 10);
  CHECK(desk.pace(kZero).up == 200);
  CHECK(desk.pace(kZero).down == 0);
  desk.on_progress(at(115), kZero, total(250, 1000));
  CHECK(desk.pace(kZero).steps == 20);
  CHECK(desk.pace(kZero).up == 0);
}

TEST_CASE("status desk: when a worker was heard last") {
  StatusDesk desk;
  desk.on_join(at(100));
  CHECK(desk.heard_seconds_ago(at(103), kZero) == 3);
  desk.on_heard(at(103), kZero);
  CHECK(desk.heard_seconds_ago(at(104), kZero) == 1);
}

TEST_CASE("status desk: a flood of questions makes one answer, and gets some") {
  StatusDesk desk;
  int made = 0;
  const auto make = [&] { return std::to_string(++made); };
  for (std::size_t i = 0; i < kStatusAnswersMax; ++i) CHECK(desk.answer(at(1), make)->text == "1");
  CHECK_FALSE(desk.answer(at(1.4), make));
  CHECK(made == 1);
  CHECK(desk.answer(at(1.5), make)->text == "2");
}

}  // namespace
}  // namespace rubato::scheduler::status_desk_tests
