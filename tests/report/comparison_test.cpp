#include "report/comparison.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/run_log.hpp"

using rubato::RunRecord;
using rubato::report::busy_note;
using rubato::report::Comparison;
using rubato::report::headline;
using rubato::report::median;
using rubato::report::summarize;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A run of which only what a headline needs is set; `time` 0 means not reached in 100 s.
RunRecord run(const std::string& sync, std::uint64_t seed, double time, double loss = 0.44) {
  RunRecord record;
  record.sync = sync;
  record.seed = seed;
  if (time > 0) record.time_to_target_seconds = time;
  record.seconds = time > 0 ? time : 100;
  record.final_loss = loss;
  record.evaluations.push_back({.seconds = record.seconds, .loss = loss});
  return record;
}

Comparison comparison(std::vector<RunRecord> runs) {
  Comparison result;
  result.target_loss = 0.45;
  result.runs = std::move(runs);
  return result;
}

// Of a run that was never evaluated.
RunRecord timing_run(const std::string& sync, std::uint64_t steps) {
  RunRecord record;
  record.sync = sync;
  record.seconds = 100;
  record.steps = steps;
  return record;
}

std::string headline_of(const Comparison& c) {
  return headline(c, summarize(c));
}

}  // namespace

TEST_CASE("median: middle value, mean of two, NaN and infinity last") {
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 4}) == 4);
  CHECK(median({1, 2, 10, 4}) == 3);
  CHECK(median({1, kInfinity, 2}) == 2);
  CHECK(std::isinf(median({1, kInfinity})));
  CHECK(std::isinf(median({std::nan(""), 1, std::nan("")})));
}

TEST_CASE("median: at most half of the values lie on either side") {
  CHECK(rc::check([](const std::vector<int>& raw) {
    RC_PRE(!raw.empty());
    const std::vector<double> values(raw.begin(), raw.end());
    const double middle = median(values);
    const auto below = std::ranges::count_if(values, [&](double v) { return v < middle; });
    const auto above = std::ranges::count_if(values, [&](double v) { return v > middle; });
    RC_ASSERT(2 * below <= static_cast<std::ptrdiff_t>(values.size()));
    RC_ASSERT(2 * above <= static_cast<std::ptrdiff_t>(values.size()));
  }));
}

TEST_CASE("summaries: models in order of appearance, seeds gathered wherever they stand") {
  const auto c = comparison({run("bsp", 1, 50), run("adsp", 1, 20), run("bsp", 2, 70),
                             run("adsp", 2, 30), run("bsp", 3, 60), run("adsp", 3, 40)});
  const auto summaries = summarize(c);
  REQUIRE(summaries.size() == 2);
  CHECK(summaries[0].title == "BSP");
  CHECK(summaries[0].runs == std::vector<std::size_t>{0, 2, 4});
  CHECK(summaries[0].time_to_target == 60);
  CHECK(summaries[0].typical_run == 4);
  CHECK_FALSE(summaries[0].saving.has_value());
  CHECK(summaries[1].time_to_target == 30);
  CHECK(summaries[1].saving == doctest::Approx(0.5));
}

TEST_CASE("summaries: a run that never arrived is infinitely slow") {
  const auto one_lost = summarize(
      comparison({run("asp", 1, 50), run("asp", 2, 0), run("asp", 3, 40), run("bsp", 1, 100)}));
  CHECK(one_lost[0].time_to_target == 50);
  CHECK(one_lost[0].reached == 2);
  CHECK(one_lost[0].saving == doctest::Approx(0.5));
  const auto two_lost =
      summarize(comparison({run("asp", 1, 50), run("asp", 2, 0), run("asp", 3, 0)}));
  CHECK_FALSE(two_lost[0].time_to_target.has_value());
  CHECK(two_lost[0].reached == 1);
}

TEST_CASE("summaries: the share of the linear bound is that of the median time") {
  auto c = comparison({run("bsp", 1, 50), run("bsp", 2, 80), run("bsp", 3, 100), run("asp", 1, 0)});
  CHECK_FALSE(summarize(c)[0].bound_share.has_value());
  c.linear_bound_seconds = 20;
  const auto summaries = summarize(c);
  CHECK(summaries[0].bound_share == doctest::Approx(0.25));
  CHECK_FALSE(summaries[1].bound_share.has_value());
}

TEST_CASE("summaries: shares are means and still add up to one") {
  auto a = run("bsp", 1, 50), b = run("bsp", 2, 60);
  a.compute_share = 0.5, a.wait_share = 0.4, a.communicate_share = 0.1;
  b.compute_share = 0.7, b.wait_share = 0, b.communicate_share = 0.3;
  const auto summary = summarize(comparison({a, b})).front();
  CHECK(summary.compute_share == doctest::Approx(0.6));
  CHECK(summary.wait_share == doctest::Approx(0.2));
  CHECK(summary.compute_share + summary.wait_share + summary.communicate_share ==
        doctest::Approx(1));
}

TEST_CASE("note: the box whose steps took too long, if one did by more than 3 %") {
  const auto with_worker = [](const char* sync, const char* name, double compute, double late) {
    RunRecord record = run(sync, 1, 50);
    rubato::WorkerRecord& worker = record.workers.emplace_back();
    worker.id = name;
    worker.compute = rubato::Duration::from_seconds(compute);
    worker.late = rubato::Duration::from_seconds(late);
    return record;
  };
  CHECK(busy_note(comparison({})).empty());
  CHECK(busy_note(comparison({with_worker("bsp", "pi", 102, 2), with_worker("asp", "pc", 0, 0)}))
            .empty());
  const auto busy =
      comparison({with_worker("bsp", "pi", 104, 4), with_worker("asp", "pc", 150, 50)});
  const std::string note =
      "steps of pc took 50 % longer than the cluster file says: its box was too slow or too busy, "
      "and times are too long";
  CHECK(busy_note(busy) == note);
  const auto read = rubato::report::parse_run_log(rubato::report::run_log(busy), "run.jsonl");
  REQUIRE(read);
  CHECK(busy_note(*read) == note);
}

TEST_CASE("headline: the winner, against BSP and against the next best") {
  CHECK(headline_of(comparison({run("bsp", 1, 80), run("asp", 1, 50), run("adsp", 1, 40)})) ==
        "ADSP reached loss 0.45 in 40.0 s, 50 % less time than BSP (80.0 s) and 20 % less time "
        "than ASP (50.0 s), the next best.");
}

TEST_CASE("headline: BSP may win") {
  CHECK(headline_of(comparison({run("bsp", 1, 30), run("asp", 1, 40)})) ==
        "BSP reached loss 0.45 in 30.0 s, 25 % less time than ASP (40.0 s).");
}

TEST_CASE("headline: a tie is not a victory of 0 %") {
  CHECK(headline_of(comparison({run("bsp", 1, 40.1), run("adsp", 1, 40)})) ==
        "ADSP reached loss 0.45 in 40.0 s, as much time as BSP (40.1 s).");
}

TEST_CASE("headline: models whose seeds' ranges meet are first together") {
  const auto tied = comparison({run("bsp", 1, 90), run("bsp", 2, 95), run("asp", 1, 44),
                                run("asp", 2, 50), run("adsp", 1, 40), run("adsp", 2, 46)});
  CHECK(headline_of(tied) ==
        "ADSP and ASP are first to reach loss 0.45: in 43.0 s (40.0 s to 46.0 s) and 47.0 s (44.0 "
        "s to 50.0 s). The seeds' ranges meet, so none of them wins. BSP follows with 92.5 s.");
  const auto summaries = summarize(tied);
  CHECK_FALSE(summaries[0].first);
  CHECK(summaries[1].first);
  CHECK(summaries[2].first);
  const auto apart =
      comparison({run("asp", 1, 47), run("asp", 2, 50), run("adsp", 1, 40), run("adsp", 2, 46)});
  CHECK(headline_of(apart) ==
        "ADSP reached loss 0.45 in 43.0 s, 11 % less time than ASP (48.5 s).");
}

TEST_CASE("headline: one seed has no range, but may tie") {
  CHECK(headline_of(comparison({run("asp", 1, 40), run("adsp", 1, 40)})) ==
        "ASP and ADSP are first to reach loss 0.45: in 40.0 s and 40.0 s. They are equal.");
}

TEST_CASE("headline: a seed that never arrived reaches into every other range") {
  const auto summaries =
      summarize(comparison({run("asp", 1, 47), run("asp", 2, 50), run("asp", 3, 0),
                            run("bsp", 1, 60), run("bsp", 2, 61), run("bsp", 3, 62)}));
  CHECK(summaries[0].time_max == std::numeric_limits<double>::infinity());
  CHECK(summaries[1].first);
}

TEST_CASE("headline: BSP never arrives, nobody arrives, one model alone") {
  CHECK(headline_of(comparison({run("bsp", 1, 0), run("adsp", 1, 40)})) ==
        "ADSP reached loss 0.45 in 40.0 s; BSP did not reach it within 1 min 40 s.");
  CHECK(headline_of(comparison({run("bsp", 1, 0, 0.9), run("adsp", 1, 0, 0.6)})) ==
        "No model reached loss 0.45. ADSP ended nearest, with a loss of 0.6000 after 1 min 40 s.");
  CHECK(headline_of(comparison({run("adsp", 1, 40)})) == "ADSP reached loss 0.45 in 40.0 s.");
}

TEST_CASE("headline: a run without any evaluation did not end at a loss of 0") {
  CHECK(headline_of(comparison({timing_run("bsp", 1000), run("adsp", 1, 0, 0.6)})) ==
        "No model reached loss 0.45. ADSP ended nearest, with a loss of 0.6000 after 1 min 40 s.");
  CHECK(headline_of(comparison({timing_run("bsp", 1000)})) ==
        "No model reached loss 0.45; none was evaluated in every run.");
}

TEST_CASE("headline: without a target the lowest loss leads, and divergence never does") {
  auto c = comparison({run("asp", 1, 0, std::nan("")), run("adsp", 1, 0, 0.4)});
  c.target_loss.reset();
  CHECK(headline_of(c) == "ADSP ended with a loss of 0.4000 after 1 min 40 s; ASP diverged.");
}

TEST_CASE("headline: without any loss it tells how much was done") {
  Comparison c;
  c.runs = {timing_run("bsp", 1200), timing_run("asp", 4300)};
  CHECK(headline_of(c) ==
        "ASP made 4,300 steps in 1 min 40 s, the most of 2 models; BSP made 1,200; timing only.");
  c.runs.pop_back();
  CHECK(headline_of(c) == "BSP made 1,200 steps in 1 min 40 s; timing only.");
  CHECK_FALSE(summarize(c)[0].measured);
}
