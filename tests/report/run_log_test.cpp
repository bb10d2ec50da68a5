#include "report/run_log.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "report/curves_csv.hpp"
#include "report/report_html.hpp"
#include "report/results_json.hpp"
#include "tests/report/sample.hpp"

using namespace rubato::report;

namespace {

void check_same_files(const Comparison& one, const Comparison& other) {
  CHECK(results_json(one) == results_json(other));
  CHECK(curves_csv(one) == curves_csv(other));
  CHECK(report_html(one, summarize(one)) == report_html(other, summarize(other)));
}

// With something unusual in every field.
Comparison unusual() {
  Comparison c = sample_comparison({.models = {"bsp", "adsp"}, .seeds = 2});
  c.task = rubato::Task::Regression;
  c.target_accuracy = 0.1 + 0.2;
  c.linear_bound_seconds = 0.1 + 0.7;
  c.virtual_time = false;
  c.note = "links are not shaped";
  c.planned_runs = 6;
  c.partial = "4 of 6 runs";
  c.resolved_text = "seed = 1\n";
  auto& run = c.runs[0];
  run.seed = std::numeric_limits<std::uint64_t>::max();
  run.time_to_target_seconds.reset();
  run.final_loss = std::nan("");
  run.evaluations[1].accuracy = std::nan("");
  run.evaluations[1].classes = {0.5, std::nan(""), 1.0 / 3};
  c.class_targets = {.recall = 0.1 + 0.2, .f1 = {}, .auc = 0.75};
  run.refused_commits = 7;
  run.refused = {1, 2, 3, 4};
  run.setbacks = 2;
  run.path = {{"pi-1", rubato::PathPart::What::Up, 0.1 + 0.5},
              {"server-0", rubato::PathPart::What::Apply, 0.3}};
  std::uint64_t word = 1'000'000'007;  // of times: a bit more than a second
  for (const rubato::WorkerFigure& row : rubato::kWorkerFigures) {
    set_word(run.workers[1], row, ++word);
    if (row.rare) set_word(run, row, ++word);
  }
  run.workers[0].id = "a \"quoted\" name";
  run.workers[0].left_seconds = 12.5;
  run.workers[0].joined_seconds = 1.25;
  run.workers[0].fate = "lost";
  run.workers[0].held_out_samples = 10;
  run.workers[0].held_out_accuracy = std::nan("");
  run.workers[1].refused = {0, 0, 5, 0};
  return c;
}

}  // namespace

TEST_CASE("run log: the files made from it are the same to the byte") {
  for (const Comparison& comparison : {sample_comparison(), unusual()}) {
    const std::string log = run_log(comparison);
    const auto read = parse_run_log(log, "run.jsonl");
    REQUIRE(read.has_value());
    check_same_files(comparison, *read);
    for (const rubato::WorkerFigure& row : rubato::kWorkerFigures) {
      CAPTURE(row.key);
      CHECK(word_of(read->runs[0].workers[1], row) == word_of(comparison.runs[0].workers[1], row));
      if (row.rare) CHECK(word_of(read->runs[0], row) == word_of(comparison.runs[0], row));
    }
    CHECK(run_log(*read) == log);
  }
}

TEST_CASE("run log: what a kill has left is a part, without the run that was on its way") {
  Comparison comparison = sample_comparison({.models = {"adsp"}, .seeds = 2});
  comparison.planned_runs = 2;
  const std::string second = log_run(comparison.runs[1]);
  const std::string log =
      log_begin(comparison) + log_run(comparison.runs[0]) + second.substr(0, second.size() / 2);
  const auto read = parse_run_log(log, "run.jsonl");
  REQUIRE(read.has_value());
  CHECK(read->runs.size() == 1);
  CHECK(read->partial == "This is a part: the command was killed after 1 of 2 runs.");
}

TEST_CASE("run log: anything else is one line that names file and line") {
  const std::string log = run_log(sample_comparison());
  for (const std::string& bad :
       {std::string("{}\n"), std::string("no json\n"), log + "{\"event\":\"sing\"}\n", log + log,
        log.substr(log.find('\n') + 1)}) {
    const auto read = parse_run_log(bad, "out/run.jsonl");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == rubato::ErrorCode::BadInput);
    CHECK(read.error().message.starts_with("out/run.jsonl, line "));
    CHECK(read.error().message.find('\n') == std::string::npos);
  }
  CHECK_FALSE(parse_run_log("", "run.jsonl").has_value());
}
