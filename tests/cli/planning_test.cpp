#include "cli/whatif/planning.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace rubato::cli::whatif::planning_tests {
namespace {

RunRecord run_of(double time, double joules, std::uint64_t bytes, std::size_t lost = 0) {
  RunRecord run;
  if (std::isfinite(time)) run.time_to_target_seconds = time;
  run.seconds = time;
  run.steps = 100;
  run.commits = 10;
  run.bytes_up = bytes;
  run.workers.resize(1 + lost);
  for (std::size_t i = 0; i < run.workers.size(); ++i) {
    run.workers[i].joules = joules / static_cast<double>(run.workers.size());
    run.workers[i].fate = i < lost ? "lost" : "member";
  }
  return run;
}

TEST_CASE("plan: expected figures are means, where losses are rare") {
  const Size size =
      size_of(4, "pi", {run_of(100, 10, 5), run_of(110, 10, 5), run_of(300, 20, 9, 3)});
  CHECK(size.forecast.time == 110);
  CHECK(size.mean_time == doctest::Approx(170));
  CHECK(size.lost == doctest::Approx(1));
  CHECK(std::isinf(size_of(4, "pi", {run_of(100, 1, 1), run_of(INFINITY, 1, 1)}).mean_time));
  const std::string table = size_table({size}, true);
  for (const char* text : {"4 pi", "Expected", "2 min 50 s", "1.0"}) {
    CAPTURE(text);
    CHECK(table.find(text) != table.npos);
  }
  CHECK(size_table({size}, false).find("Expected") == std::string::npos);
}

TEST_CASE("plan: the fewest in time, the quickest, and those of least energy") {
  const std::vector<Size> sizes{size_of(2, "pi", {run_of(100, 50, 1)}),
                                size_of(4, "pi", {run_of(60, 70, 2)}),
                                size_of(8, "pi", {run_of(40, 90, 4)})};
  CHECK(size_text(sizes, 60) ==
        "4 pi reach the target within 60.0 s, the fewest of these. Quickest: 8 pi, 40.0 s. "
        "Least energy: 2 pi, 50 J.");
  CHECK(size_text(sizes, 30).starts_with("None of these reaches the target within 30.0 s. "));
  CHECK(size_text({size_of(2, "pi", {run_of(INFINITY, 1, 1)})}, 60) ==
        "None of these reaches the target.");
}

TEST_CASE("plan: a loss costs the median of what each seed loses") {
  const std::vector<RunRecord> before{run_of(100, 10, 5), run_of(200, 10, 5), run_of(150, 10, 5)};
  const std::vector<RunRecord> after{run_of(130, 12, 6), run_of(190, 12, 6), run_of(170, 12, 6)};
  const Loss loss = loss_of("pi-1, for good", before, after);
  CHECK(loss.more_time == doctest::Approx(20));
  CHECK(loss.time == doctest::Approx(170));
  CHECK(*loss.more_joules == doctest::Approx(2));
  CHECK(*loss.more_bytes == doctest::Approx(1));
  const Loss all = loss_of_all("a server", 100, 30);
  CHECK(all.more_time == doctest::Approx(80));
  CHECK(all.time == doctest::Approx(180));
  const std::string table = loss_table({loss, all});
  CHECK(table.find("+20.0 s") != table.npos);
  CHECK(table.find("+80.0 s") != table.npos);
  const Loss never =
      loss_of("x", before, {run_of(INFINITY, 1, 1), run_of(INFINITY, 1, 1), after[2]});
  CHECK(loss_table({never}).find("misses it") != std::string::npos);
}

TEST_CASE("plan: workers are not worth their energy if nobody misses them") {
  const std::vector<RunRecord> with{run_of(100, 50, 5), run_of(200, 50, 5), run_of(100, 50, 5)};
  const auto without = [](double one, double two, double three) {
    return std::vector<RunRecord>{run_of(one, 30, 5), run_of(two, 30, 5), run_of(three, 30, 5)};
  };
  const Useless useless = useless_of({"slow-0", "slow-1"}, with, without(104, 206, 98));
  CHECK(useless.ratio == doctest::Approx(1.03));
  CHECK(useless.confirmed());
  CHECK(useless.sure());
  CHECK(useless_text(useless) ==
        "Not worth their energy: slow-0, slow-1. Without them: 3.0 % more time (-2.0 % to +4.0 %, "
        "3 seeds) and 30 J instead of 50 J.");
  const Useless missed = useless_of({"slow-0"}, with, without(120, 220, 130));
  CHECK_FALSE(missed.confirmed());
  CHECK(missed.sure());
  CHECK(useless_text(missed).starts_with("Slow, but worth their energy: slow-0. Without it: 20.0"));
}

TEST_CASE("plan: seeds on both sides of 5 % do not say whether workers are missed") {
  const std::vector<RunRecord> with{run_of(100, 50, 5), run_of(100, 50, 5), run_of(100, 50, 5)};
  const std::vector<RunRecord> without{run_of(90, 50, 5), run_of(102, 50, 5), run_of(140, 50, 5)};
  const Useless useless = useless_of({"slow"}, with, without);
  CHECK(useless.ratio == doctest::Approx(1.02));
  CHECK_FALSE(useless.sure());
  CHECK(useless_text(useless).starts_with("Not worth their energy (maybe by chance): slow. "));
}

}  // namespace
}  // namespace rubato::cli::whatif::planning_tests
