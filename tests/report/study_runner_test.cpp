#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <thread>

#include "report/study/cell_result.hpp"
#include "report/study/runner.hpp"
#include "report/study/study_progress.hpp"

using namespace rubato;
using namespace rubato::report;

namespace {

Result<CellResult> result_of(std::size_t job) {
  CellResult result;
  result.seed = job;
  return result;
}

std::string text_of(std::FILE* file) {
  std::fflush(file);
  std::rewind(file);
  std::string text;
  for (int c = 0; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("runner: every job runs once, whatever the number of threads") {
  for (const int threads : {1, 2, 7}) {
    CAPTURE(threads);
    std::multiset<std::size_t> done;
    const auto ran = run_jobs(
        50, threads, {}, [](std::size_t job, const std::stop_token&) { return result_of(job); },
        [&](std::size_t job, CellResult result) -> Result<void> {
          CHECK(result.seed == job);
          done.insert(job);
          return {};
        });
    CHECK(ran);
    CHECK(done.size() == 50);
    CHECK(std::set<std::size_t>(done.begin(), done.end()).size() == 50);
  }
}

TEST_CASE("runner: the first error ends it and is returned") {
  for (const int threads : {1, 3}) {
    std::size_t done = 0;
    const auto ran = run_jobs(
        1000, threads, {},
        [](std::size_t job, const std::stop_token&) -> Result<CellResult> {
          if (job == 5) return fail(ErrorCode::Io, "job 5 failed");
          return result_of(job);
        },
        [&](std::size_t, const CellResult&) -> Result<void> {
          ++done;
          return {};
        });
    REQUIRE_FALSE(ran);
    CHECK(ran.error().message == "job 5 failed");
    CHECK(done < 1000);
  }
}

TEST_CASE("runner: a stop reaches the runs under way, whose results are not used") {
  std::stop_source stop;
  std::size_t done = 0;
  const auto ran = run_jobs(
      10, 2, stop.get_token(),
      [&](std::size_t job, const std::stop_token& token) {
        if (job == 3) stop.request_stop();
        if (job > 3) CHECK(token.stop_requested());
        return result_of(job);
      },
      [&](std::size_t job, const CellResult&) -> Result<void> {
        CHECK(job < 3);
        ++done;
        return {};
      });
  REQUIRE_FALSE(ran);
  CHECK(ran.error().code == ErrorCode::Stopped);
  CHECK(done <= 3);
}

TEST_CASE("runner: an error of what keeps the results ends it, too") {
  const auto ran = run_jobs(
      10, 1, {}, [](std::size_t job, const std::stop_token&) { return result_of(job); },
      [](std::size_t, const CellResult&) -> Result<void> {
        return fail(ErrorCode::Io, "disk full");
      });
  REQUIRE_FALSE(ran);
  CHECK(ran.error().message == "disk full");
}

TEST_CASE("study progress: one line a run where there is no terminal") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    StudyProgress progress(file, {0, 1}, 3, 2);
    progress.end_run(1, "s: H = 2, ASP seed 1", "target after 20.0 s", 1);
    progress.end_run(0, "s: H = 1, ASP seed 1", "target after 10.0 s", 1);
  }
  CHECK(text_of(file) ==
        "3 of 5 runs kept from before\n"
        "[4/5] s: H = 2, ASP seed 1: target after 20.0 s\n"
        "[5/5] s: H = 1, ASP seed 1: target after 10.0 s\n");
}

TEST_CASE("study progress: the time left follows the costs of each variant") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    StudyProgress progress(file, {0, 1, 2, 0, 1, 2}, 0, 2);
    CHECK(progress.seconds_left() < 0);
    progress.end_run(0, "", "", 4);
    CHECK(progress.seconds_left() == doctest::Approx(5 * 4 / 2.0));  // others may cost the same
    progress.end_run(1, "", "", 10);
    CHECK(progress.seconds_left() == doctest::Approx((7 + 4 + 10 + 7) / 2.0));
    progress.know(2, 1);
    progress.end_run(2, "", "", 3);
    CHECK(progress.seconds_left() == doctest::Approx((4 + 10 + 2) / 2.0));
    progress.end_run(3, "", "", 4);
    progress.end_run(4, "", "", 10);
    CHECK(progress.seconds_left() == doctest::Approx(2));  // one job keeps one core busy
  }
  std::fclose(file);
}
