// results.json and curves.csv.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/json.hpp"
#include "report/curves_csv.hpp"
#include "report/results_json.hpp"
#include "tests/report/sample.hpp"

using namespace rubato::report;
using Json = rubato::OrderedJson;

namespace {

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

}  // namespace

TEST_CASE("results.json: exactly the documented keys, in order") {
  const Json results = Json::parse(results_json(sample_comparison()));
  CHECK(keys(results) == std::vector<std::string>{"cluster", "command", "time", "target",
                                                  "complete", "host", "options", "configuration",
                                                  "runs"});
  CHECK(keys(results["host"]) ==
        std::vector<std::string>{"cpu", "cores", "os", "rubato", "commit"});
  CHECK(results["target"] == Json{{"loss", 0.45}, {"accuracy", nullptr}});
  CHECK(results["complete"] == true);
  CHECK(results["options"]["adsp"]["start_rate"] == "4");
  CHECK(results["configuration"] == "name = \"edge-3\"\nseed = 1\n");
  REQUIRE(results["runs"].size() == 12);
  for (const Json& run : results["runs"]) {
    CHECK(keys(run) == std::vector<std::string>{
                           "sync", "seed", "time_to_target_s", "stop_reason", "seconds", "steps",
                           "commits", "bytes_up", "bytes_down", "compute_share", "wait_share",
                           "communicate_share", "final_loss", "final_accuracy", "judged_loss",
                           "judged_accuracy", "heterogeneity", "workers", "findings"});
    REQUIRE(run["workers"].size() == 3);
    CHECK(keys(run["workers"][0]) == std::vector<std::string>{"id", "steps", "commits", "compute_s",
                                                              "wait_s", "communicate_s", "bytes_up",
                                                              "bytes_down"});
  }
}

TEST_CASE("results.json: values arrive exactly, what is not a number is null") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 2});
  comparison.runs[0].seed = std::numeric_limits<std::uint64_t>::max();
  comparison.runs[0].wait_share = 0.1 + 0.2;
  comparison.runs[1].time_to_target_seconds.reset();
  comparison.runs[1].final_loss = std::nan("");
  const Json results = Json::parse(results_json(comparison));
  const auto& expected = comparison.runs[0];
  const Json& run = results["runs"][0];
  CHECK(results["cluster"] == "edge-3");
  CHECK(run["sync"] == "adsp");
  CHECK(run["seed"].get<std::uint64_t>() == expected.seed);
  CHECK(run["time_to_target_s"].get<double>() == *expected.time_to_target_seconds);
  CHECK(run["wait_share"].get<double>() == expected.wait_share);
  CHECK(run["workers"][2]["id"] == "pi-2");
  CHECK(run["workers"][2]["compute_s"].get<double>() == expected.workers[2].compute.seconds());
  CHECK(results["runs"][1]["time_to_target_s"].is_null());
  CHECK(results["runs"][1]["final_loss"].is_null());
}

TEST_CASE("results.json: every figure of a worker is there, a rare one where it is not 0") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  auto& workers = comparison.runs[0].workers;
  std::uint64_t word = 1'000'000'007;  // of times: a bit more than a second
  for (const rubato::WorkerFigure& row : rubato::kWorkerFigures) {
    set_word(workers[0], row, ++word);
    set_word(workers[1], row, 0);
  }
  workers[0].compute += rubato::Duration::from_seconds(1);  // the other one was late
  const Json told = Json::parse(results_json(comparison))["runs"][0]["workers"];
  for (const rubato::WorkerFigure& row : rubato::kWorkerFigures) {
    CAPTURE(row.key);
    const double value =
        row.time ? (workers[0].*row.time).seconds() : static_cast<double>(workers[0].*row.number);
    CHECK(told[0][row.key].get<double>() == value);
    CHECK(told[1].contains(row.key) == !row.rare);
  }
}

TEST_CASE("results.json: where there is a target, the figures that it was judged by are there") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  const auto run = [&] { return Json::parse(results_json(comparison))["runs"][0]; };
  const auto& evaluations = comparison.runs[0].evaluations;
  CHECK(run()["judged_loss"].get<double>() == judged(evaluations, evaluations.size() - 1).loss);
  comparison.target_loss.reset();
  CHECK_FALSE(run().contains("judged_loss"));
}

TEST_CASE("results.json: same input, same bytes, hostile names survive or are replaced") {
  auto comparison = sample_comparison();
  comparison.cluster = "a \"quoted\" \\ name\nwith </script>";
  CHECK(results_json(comparison) == results_json(comparison));
  CHECK(Json::parse(results_json(comparison))["cluster"] == comparison.cluster);
  comparison.cluster = "not \xff utf-8";
  CHECK(Json::parse(results_json(comparison))["cluster"] == "not \xEF\xBF\xBD utf-8");
}

TEST_CASE("results.json says which part of an interrupted comparison is there") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 2});
  CHECK_FALSE(Json::parse(results_json(comparison)).contains("partial"));
  comparison.partial = "2 of 4 runs";
  const Json results = Json::parse(results_json(comparison));
  CHECK(results["complete"] == false);
  CHECK(results["partial"] == "2 of 4 runs");
}

TEST_CASE("curves.csv: the judged loss is the mean of five evaluations") {
  Comparison comparison;
  rubato::RunRecord run;
  run.sync = "adsp";
  for (int i = 0; i < 7; ++i) run.evaluations.push_back({1.0 * i, 0, 0, 1.0 * i, 0});
  comparison.runs = {run};
  const std::string csv = curves_csv(comparison);
  CHECK(csv.find("adsp,0,1,0,0,1,0,0.5,0\n") != std::string::npos);
  CHECK(csv.find("adsp,0,6,0,0,6,0,4,0\n") != std::string::npos);
}

TEST_CASE("curves.csv: one line an evaluation, numbers as short as exact") {
  Comparison comparison;
  rubato::RunRecord run;
  run.sync = "adsp";
  run.seed = 7;
  run.evaluations = {{0, 0, 0, 2.5, 0.25}, {5.5, 120, 4, 0.1 + 0.2, 0.75}};
  comparison.runs = {run};
  run.sync = "asp";
  run.evaluations = {{1, 2, 3, 2.5, std::nan("")}};  // a loss alone
  comparison.runs.push_back(run);
  run.sync = "with \"quotes\", and comma";
  run.evaluations = {{0, 0, 0, 2.5, 0.25}};
  comparison.runs.push_back(run);
  CHECK(curves_csv(comparison) ==
        "sync,seed,seconds,steps,commits,loss,accuracy,judged_loss,judged_accuracy\n"
        "adsp,7,0,0,0,2.5,0.25,2.5,0.25\n"
        "adsp,7,5.5,120,4,0.30000000000000004,0.75,1.4,0.5\n"
        "asp,7,1,2,3,2.5,,2.5,\n"
        "\"with \"\"quotes\"\", and comma\",7,0,0,0,2.5,0.25,2.5,0.25\n");
}
