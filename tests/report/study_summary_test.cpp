#include <doctest/doctest.h>

#include <cmath>
#include "base/json.hpp"

#include "report/study/answer.hpp"
#include "report/study/pictures.hpp"
#include "report/study/study_files.hpp"
#include "report/study/study_report.hpp"
#include "report/study/summary.hpp"
#include "report/study/svg_chart.hpp"

using namespace rubato;
using namespace rubato::report;

namespace {

constexpr double kNever = INFINITY;

CellResult cell(std::uint64_t seed, double time, double loss, std::uint64_t bytes, double wait) {
  CellResult result;
  result.seed = seed;
  if (std::isfinite(time)) result.time_to_target = time;
  result.stop_reason = std::isfinite(time) ? "target reached" : "max_seconds";
  result.seconds = std::isfinite(time) ? time : 100;
  result.steps = 100 * seed;
  result.bytes_up = bytes;
  result.wait_share = wait;
  result.compute_share = 1 - wait;
  result.final_loss = loss;
  result.diverged = std::isnan(loss);
  result.heterogeneity = 2;
  result.workers = 2;
  result.curve = {{0, 2, 0.1}, {result.seconds, loss, 0.9}};
  return result;
}

// The plan of a study of BSP and others on two unequal workers, and nothing run yet.
// `head`: what stands before the contenders; `others`: the contenders after BSP.
StudyResults planned(const std::string& head, const std::string& others) {
  auto study =
      parse_study(head + "[[contenders]]\nsync = \"bsp\"\n[[contenders]]\n" + others, "s.toml");
  REQUIRE_MESSAGE(study, study.error().message);
  auto plan = make_plan(std::move(*study), {"c.toml", R"(
[[workers]]
name = "a"
step_seconds = 1
[[workers]]
name = "b"
step_seconds = 2
[stop]
target_loss = 0.5
max_seconds = 100
)",
                                            ""});
  REQUIRE_MESSAGE(plan, plan.error().message);
  StudyResults results;
  results.plan = std::move(*plan);
  results.command = "rubato study s.toml";
  return results;
}

// Two values of H under BSP and ADSP, three seeds, made by hand.
StudyResults sample() {
  StudyResults results = planned(R"(
question = "Is <b>this</b> & that safe?"
cluster = "c.toml"
seeds = 3
[grid]
heterogeneity = [1, 2, 3]
)",
                                 R"(
name = "ADSP, \"ours\""
sync = "adsp"
)");
  results.cells = {
      {cell(1, 40, 0.4, 10, 0.5), cell(2, 60, 0.5, 30, 0.1), cell(3, 50, 0.3, 20, 0.3)},
      {cell(1, 20, 0.4, 1, 0), cell(2, 10, 0.4, 2, 0), cell(3, 30, 0.4, 3, 0)},
      {cell(1, 80, 0.4, 10, 0.5), cell(2, kNever, 0.7, 30, 0.1), cell(3, 90, 0.3, 20, 0.3)},
      {cell(1, kNever, NAN, 1, 0), cell(2, kNever, 0.8, 2, 0), cell(3, 30, 0.4, 3, 0)},
      {cell(1, 70, 0.4, 10, 0.5), std::nullopt, std::nullopt},
      {std::nullopt, std::nullopt, std::nullopt}};
  return results;
}

}  // namespace

TEST_CASE("spread: quartiles by interpolation, infinity as a value") {
  const Spread one = spread({7});
  CHECK(one.median == 7);
  CHECK(one.low == 7);
  CHECK(one.max == 7);
  const Spread five = spread({50, 10, 40, 20, 30});
  CHECK(five.median == 30);
  CHECK(five.low == 20);
  CHECK(five.high == 40);
  CHECK(five.min == 10);
  CHECK(five.max == 50);
  const Spread four = spread({4, 1, 3, 2});
  CHECK(four.median == 2.5);
  CHECK(four.low == 1.75);
  CHECK(four.high == 3.25);
  const Spread lost = spread({1, kNever, 3});
  CHECK(lost.median == 3);
  CHECK(std::isinf(lost.high));
  CHECK(std::isinf(lost.max));
  CHECK(std::isinf(spread({1, kNever, NAN}).median));
  CHECK(std::isinf(spread({1, 2, kNever, kNever}).median));
}

TEST_CASE("summary: each point has a linear bound of its own, or none") {
  StudyResults results = sample();
  for (const auto& summary : summarize(results)) CHECK_FALSE(summary.bound_share);
  results.linear_bounds.assign(results.plan.points.size(), std::nullopt);
  results.linear_bounds[0] = 10;
  const auto summaries = summarize(results);
  CHECK(*summaries[0].bound_share == doctest::Approx(0.2));
  CHECK(*summaries[1].bound_share == doctest::Approx(0.5));
  CHECK_FALSE(summaries[2].bound_share);
}

TEST_CASE("summary: medians, spread, savings and what never arrived") {
  const auto summaries = summarize(sample());
  REQUIRE(summaries.size() == 5);  // nothing of the sixth has finished
  CHECK(summaries[0].time.median == 50);
  CHECK(summaries[0].time.min == 40);
  CHECK(summaries[0].time.max == 60);
  CHECK(summaries[0].bytes.median == 20);
  CHECK(summaries[0].wait_share == doctest::Approx(0.3));
  CHECK_FALSE(summaries[0].saving);
  CHECK(summaries[1].time.median == 20);
  CHECK(*summaries[1].saving == doctest::Approx(0.6));
  CHECK(summaries[0].curve.back().seconds == 50);  // of the run in the middle

  CHECK(summaries[2].runs == 3);
  CHECK(summaries[2].reached == 2);
  CHECK(summaries[2].time.median == 90);
  CHECK(std::isinf(summaries[2].time.max));
  CHECK(summaries[3].reached == 1);
  CHECK(summaries[3].diverged == 1);
  CHECK(std::isinf(summaries[3].time.median));
  CHECK_FALSE(summaries[3].saving);
  CHECK(summaries[4].runs == 1);
}

namespace {

// BSP beside a search of four rates, two seeds.
StudyResults sample_search() {
  StudyResults results = planned("cluster = \"c.toml\"\nseeds = 2\n", R"(
name = "ADSP+"
sync = "adsp"
search = { sync.adsp.fixed_rate = [1, 2, 4, 8] }
)");
  results.cells = {{cell(1, 60, 0.4, 9, 0), cell(2, 60, 0.4, 9, 0)},
                   {cell(1, 50, 0.4, 1, 0), cell(2, 54, 0.4, 1, 0)},
                   {cell(1, 10, 0.4, 2, 0), cell(2, kNever, 0.7, 2, 0)},
                   {cell(1, 40, 0.4, 3, 0), cell(2, 44, 0.4, 3, 0)},
                   {cell(1, 42, 0.3, 4, 0), cell(2, 42, 0.3, 4, 0)}};
  return results;
}

}  // namespace

TEST_CASE("summary: the best trial stands for a contender that searches, the first of equals") {
  StudyResults results = sample_search();
  auto summaries = summarize(results);
  REQUIRE(summaries.size() == 2);
  CHECK(summaries[0].trials.empty());
  const VariantSummary& best = summaries[1];
  CHECK(best.trial.choices == std::vector<std::size_t>{2});  // 4 and 8 both take 42 s
  CHECK(best.time.median == 42);
  CHECK(best.runs == 2);
  CHECK(*best.saving == doctest::Approx(0.3));
  REQUIRE(best.trials.size() == 4);
  CHECK(best.trials[1].reached == 1);
  CHECK(std::isinf(best.trials[1].time));

  const std::string table = study_table(results, summaries);
  CHECK(table.find("Best of a search") != std::string::npos);
  CHECK(table.find("fixed_rate = 4          42.0 s") != std::string::npos);
  const auto json = nlohmann::json::parse(study_json(results, summaries));
  CHECK(json.at("contenders")[1].at("search").at("sync.adsp.fixed_rate") ==
        std::vector{1, 2, 4, 8});
  CHECK(json.at("summaries")[1].at("choice").at("sync.adsp.fixed_rate") == 4);
  CHECK(json.at("summaries")[1].at("trials")[3].at("time_to_target_s") == 42);
  CHECK_FALSE(json.at("summaries")[0].contains("choice"));
  CHECK(json.at("runs").size() == 10);
  CHECK(json.at("runs")[9].at("choice").at("sync.adsp.fixed_rate") == 8);
  const std::string csv = study_csv(results);
  CHECK(csv.starts_with("contender,choice,sync,seed,"));
  CHECK(csv.find("\nADSP+,fixed_rate = 8,adsp,2,42,") != std::string::npos);
  CHECK(csv.find("\nBSP,,bsp,1,60,") != std::string::npos);
  CHECK(study_report(results, summaries).find("the best sync.adsp.fixed_rate of 1, 2, 4, 8") !=
        std::string::npos);

  // A trial with fewer runs than others is not compared yet.
  results.cells[3][1].reset();
  summaries = summarize(results);
  CHECK(summaries[1].trial.choices == std::vector<std::size_t>{3});
  // Where none arrives, the lowest loss wins.
  for (auto& seeds : results.cells)
    for (auto& run : seeds)
      if (run) run->time_to_target.reset();
  results.cells[2][1]->final_loss = results.cells[2][0]->final_loss = 0.2;
  CHECK(summarize(results)[1].trial.choices == std::vector<std::size_t>{1});
}

TEST_CASE("results.json and runs.csv hold every run, NaN as null") {
  const StudyResults results = sample();
  const auto json = nlohmann::json::parse(study_json(results, summarize(results)));
  CHECK(json.at("runs").size() == 13);
  REQUIRE(json.at("summaries").size() == 5);
  const auto& lost = json.at("summaries")[3];
  CHECK(lost.at("point").at("heterogeneity") == 2);
  CHECK(lost.at("contender") == "ADSP, \"ours\"");
  CHECK(lost.at("reached") == 1);
  CHECK(lost.at("diverged") == 1);
  CHECK(lost.at("time_to_target_s").at("median").is_null());
  CHECK(lost.at("time_to_target_s").at("min") == 30);

  const std::string csv = study_csv(results);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 14);
  CHECK(csv.starts_with("heterogeneity,contender,sync,seed,time_to_target_s,"));
  CHECK(csv.find("\n2,\"ADSP, \"\"ours\"\"\",adsp,1,,true,100,") != std::string::npos);
}

TEST_CASE("the table names every contender and what did not arrive") {
  const StudyResults results = sample();
  const std::string table = study_table(results, summarize(results));
  CHECK(table.find("heterogeneity = 1: 2 workers, H 2.00, target loss 0.5, 3 seeds") !=
        std::string::npos);
  CHECK(table.find("not reached (1/3)") != std::string::npos);
  CHECK(table.find("1 min") == std::string::npos);
  CHECK(table.find("80.0 s to never") != std::string::npos);
  CHECK(table.find("60.0 %") != std::string::npos);
  CHECK(table.find("(1 diverged)") != std::string::npos);
}

TEST_CASE("a study that measures nothing has no losses and no time to target, but all the rest") {
  StudyResults results = sample();
  for (Variant& variant : results.plan.variants) variant.config.stop.target_loss.reset();
  for (auto& seeds : results.cells) {
    for (auto& run : seeds) {
      if (!run) continue;
      run->time_to_target.reset();
      run->final_loss = run->final_accuracy = NAN;
      run->diverged = false;
      run->curve.clear();
    }
  }
  const auto summaries = summarize(results);
  const std::string table = study_table(results, summaries);
  CHECK(table.find("Loss") == std::string::npos);
  CHECK(table.find("not reached") == std::string::npos);
  const std::string csv = study_csv(results);
  CHECK(csv.find("nan") == std::string::npos);
  CHECK(csv.find("0.5,0.5,0,,,2,2\n") != std::string::npos);
  const auto json = nlohmann::json::parse(study_json(results, summaries));
  CHECK(json.at("runs")[0].at("final_loss").is_null());
  CHECK(json.at("summaries")[0].at("final_loss").at("median").is_null());
  CHECK(json.at("summaries")[0].at("steps").at("median") == 200);
  CHECK_FALSE(has_target(results.plan));
  const std::string details = details_picture(results, summaries);
  for (const char* title : {"Waiting", "Steps", "Commits", "Bytes", "Bandwidth"})
    CHECK(details.find(std::string(title) + "</text>") != details.npos);
  CHECK(details.find("\u2715") == details.npos);
  const std::string page = study_report(results, summaries);
  CHECK(page.find("\"target\":\"\"") != page.npos);
}

TEST_CASE("the study's page carries data, never markup") {
  const StudyResults results = sample();
  const std::string page = study_report(results, summarize(results));
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("<b>this</b>") == std::string::npos);
  CHECK(page.find("\\u003cb>this") != std::string::npos);
  CHECK(page.find("{{") == page.npos);
  CHECK(page.find("http-equiv=\"Content-Security-Policy\"") != page.npos);
  const auto begin = page.find("application/json\">") + 18;
  const auto data =
      nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  CHECK(data.at("planned") == 18);
  CHECK(data.at("summaries").size() == 5);
  CHECK(data.at("summaries")[3].at("time").at("median").is_null());
  CHECK(data.at("summaries")[2].at("reached") == 2);
  CHECK(data.at("axes")[0].at("values").size() == 3);
}

TEST_CASE("axis ticks are round and hold the values") {
  CHECK(axis_ticks(0, 0, false) == std::vector<double>{0, 1});
  CHECK(axis_ticks(3, 10, false) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(axis_ticks(3, 22, false) == std::vector<double>{0, 5, 10, 15, 20, 25});
  CHECK(axis_ticks(3, 22, true) == std::vector<double>{2, 5, 10, 20, 50});
  for (const double largest : {0.013, 1.0, 7.7, 99.0, 100.1, 123456.0}) {
    CAPTURE(largest);
    const auto ticks = axis_ticks(largest / 100, largest, false);
    CHECK(ticks.back() >= largest);
    CHECK(ticks.size() <= 8);
    CHECK(ticks.size() >= 4);
    const auto wide = axis_ticks(largest / 100, largest, true);
    CHECK(wide.front() <= largest / 100);
    CHECK(wide.back() >= largest);
  }
}

TEST_CASE("pictures show every contender, ranges, and a cross for what never arrived") {
  const StudyResults results = sample();
  const auto summaries = summarize(results);
  const std::string picture = time_picture(results, summaries);
  CHECK(picture.starts_with("<svg xmlns="));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(picture == time_picture(results, summaries));
  CHECK(picture.find("ADSP, &quot;ours&quot;") != picture.npos);
  CHECK(picture.find("\u2715 1/3") != picture.npos);
  CHECK(picture.find(">2/3</text>") != picture.npos);
  std::size_t marks = 0;
  for (auto at = picture.find("<g "); at != picture.npos; at = picture.find("<g ", at + 1)) ++marks;
  CHECK(marks == 2 + 4);  // of the legend, and of five values, one of them never
  const std::string details = details_picture(results, summaries);
  for (const char* title : {"Waiting", "Communicating", "Steps", "Bandwidth"})
    CHECK(details.find(title) != details.npos);
  CHECK(details.find("nan") == details.npos);
  CHECK(details.find("inf\"") == details.npos);
}

namespace {

std::string answer_of(const StudyResults& results) {
  return study_answer(results, summarize(results));
}

const std::string kTwoRivals = R"(
sync = "asp"
[[contenders]]
sync = "adsp"
)";

// Times of BSP, ASP and ADSP at each point, one seed.
StudyResults timed(const std::string& grid, const std::vector<std::vector<double>>& times) {
  StudyResults results = planned("cluster = \"c.toml\"\nseeds = 1\n" + grid, kTwoRivals);
  for (const auto& point : times)
    for (const double time : point) results.cells.push_back({cell(1, time, 0.4, 1, 0)});
  REQUIRE(results.cells.size() == results.plan.variants.size());
  return results;
}

}  // namespace

TEST_CASE("study answer: who leads where, and what the x axis changes") {
  const std::string grid = "[grid]\nheterogeneity = [1, 2, 6]\n";
  CHECK(answer_of(timed(grid, {{10, 12, 11}, {30, 12, 11}, {60, 15, 12}})) ==
        "ADSP is first to the target at 2 of 3 values of heterogeneity; at heterogeneity = 6 its "
        "time "
        "is 1.1 times that at 1, and that of BSP 6.0 times, the most.");
  CHECK(
      answer_of(timed(grid, {{10, 9, 8}, {30, 9, 9}, {kNever, 8, 8}})) ==
      "ADSP is first to the target at all 3 values of heterogeneity; at heterogeneity = 6 its time "
      "is 1.0 times that at 1, and BSP does not arrive.");
  CHECK(answer_of(timed(grid, {{10, 9, 9}, {kNever, kNever, kNever}, {80, 8, 8}})) ==
        "ASP and ADSP are each first to the target at 2 of 3 values of heterogeneity; at 1 of 3 "
        "values "
        "of heterogeneity nobody reaches the target; at heterogeneity = 6 the time of ASP is 0.89 "
        "times that at 1, and that of BSP 8.0 times, the most.");
  CHECK(answer_of(timed(grid, std::vector(3, std::vector(3, kNever)))) ==
        "No contender reaches the target anywhere.");
  CHECK(answer_of(timed("", {{20, 12, 10}})) ==
        "ADSP is first to the target; BSP takes 2.0 times as long.");
  CHECK(answer_of(timed(
            "[[cases]]\nname = \"a\"\n[[cases]]\nname = \"b\"\nset = { training.batch = 4 }\n",
            {{20, 12, 10}, {30, 10, 10}})) ==
        "ADSP is first to the target in both cases; BSP takes 2.0 to 3.0 times as long.");
  CHECK(answer_of(timed("[grid]\nheterogeneity = [1, 2]\nservers.delay_seconds = [0, 1]\n",
                        {{9, 8, 7}, {9, 8, 7}, {18, 16, 7}, {18, 16, 14}})) ==
        "ADSP is first to the target at all 4 points of the grid; at heterogeneity = 2 its time is "
        "1.5 "
        "times that at 1, and that of BSP 2.0 times, the most.");
}

TEST_CASE("study answer: a point at which somebody has yet to run has no leader") {
  CHECK(answer_of(sample()) ==
        "BSP and ADSP, \"ours\" are each first to the target at 1 of 2 values of heterogeneity.");
}

TEST_CASE("study answer: without a target the loss counts, without a loss the steps") {
  StudyResults results = timed("[grid]\nheterogeneity = [1, 2]\n", {{9, 8, 7}, {9, 8, 7}});
  for (Variant& variant : results.plan.variants) variant.config.stop.target_loss.reset();
  results.cells[1][0]->final_loss = results.cells[4][0]->final_loss = 0.1;
  CHECK(answer_of(results) == "ASP ends with the lowest loss at both values of heterogeneity.");
  for (auto& cells : results.cells) cells[0]->curve.clear();
  results.cells[2][0]->steps = 500;
  results.cells[5][0]->steps = 1000;
  CHECK(
      answer_of(results) ==
      "ADSP makes the most steps at both values of heterogeneity; at heterogeneity = 2 its number "
      "of steps is 2.0 times that at 1.");
}
