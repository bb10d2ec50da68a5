#include "report/table.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

#include "base/file.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "tests/report/sample.hpp"

using namespace rubato::report;
using rubato::RunRecord;

namespace {

std::string table_of(const Comparison& comparison) {
  return comparison_table(comparison, summarize(comparison));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("text: durations, counts, bytes, shares, losses") {
  CHECK(duration_text(0) == "0.00 s");
  CHECK(duration_text(9.999) == "10.0 s");
  CHECK(duration_text(99.96) == "1 min 40 s");
  CHECK(duration_or(99.96) == "1 min 40 s");
  CHECK(duration_or(std::numeric_limits<double>::infinity()) == "not reached");
  CHECK(duration_or(std::numeric_limits<double>::infinity(), "never") == "never");
  CHECK(duration_text(370) == "6 min 10 s");
  CHECK(duration_text(3599.6) == "1 h 00 min");
  CHECK(duration_text(30336) == "8 h 26 min");
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1234567) == "1,234,567");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(999.6) == "1.00 kB");
  CHECK(bytes_text(123'456'789) == "123 MB");
  CHECK(percent_text(0.4482) == "44.8 %");
  CHECK(percent_text(-0.0001) == "0.0 %");
  CHECK(loss_text(0.448) == "0.4480");
  CHECK(loss_text(123.456) == "123.46");
  CHECK(loss_text(std::numeric_limits<double>::quiet_NaN()) == "diverged");
  CHECK(loss_text(-std::numeric_limits<double>::infinity()) == "diverged");
}

TEST_CASE("text: the time left is told no finer than it is known") {
  CHECK(left_text({}) == "time left unknown");
  CHECK(left_text(0.3) == "about 5 s left");
  CHECK(left_text(21) == "about 25 s left");
  CHECK(left_text(60) == "about 60 s left");
  CHECK(left_text(61) == "about 2 min left");
  CHECK(left_text(3600) == "about 60 min left");
  CHECK(left_text(4000) == "about 1 h 10 min left");
  CHECK(left_text(1e300).starts_with("about "));
}

TEST_CASE("text: paragraphs are wrapped at spaces, and words stay whole") {
  CHECK(wrapped("one two three", rubato::kAnyWidth) == "one two three");
  CHECK(wrapped("one two three", 7) == "one two\nthree");
  CHECK(wrapped("one two three\nfour\n", 8, 2) == "one two\n  three\nfour\n");
  CHECK(wrapped("  name: a value that is long\n", 14, 4) ==
        "  name: a\n    value that\n    is long\n");
  CHECK(wrapped("Report: /a/path/that/is/long", 10) == "Report:\n/a/path/that/is/long");
  CHECK(wrapped("größe größe", 6) == "größe\ngröße");  // characters, not bytes
  CHECK(broken("hornbeam with leaves", 9) ==
        std::vector<std::string>{"hornbeam", "with", "leaves"});
  CHECK(broken("größenordnung", 6) == std::vector<std::string>{"größen", "ordnun", "g"});
}

TEST_CASE("table: golden") {
  const auto golden = rubato::read_file(RUBATO_TABLE_GOLDEN);
  REQUIRE(golden.has_value());
  CHECK(table_of(sample_comparison()) == *golden);
}

TEST_CASE("table: columns end at the same place and fit a terminal of 120 columns") {
  auto comparison = sample_comparison({.workers = 100});
  comparison.runs[0].time_to_target_seconds.reset();
  const auto lines = lines_of(table_of(comparison));
  REQUIRE(lines.size() == 9);
  for (std::size_t i = 2; i < 7; ++i) {
    CHECK(lines[i].size() == lines[2].size());
    CHECK(lines[i].size() <= 120);
  }
}

TEST_CASE("table: columns that do not fit follow below, and a long cell has several lines") {
  const std::vector<std::vector<std::string>> columns = {
      {"Class", "a", "b"}, {"Samples", "1,000", "20"}, {"Recall", "90.0 %", "-"}};
  CHECK(aligned(columns, 22) ==
        "Class  Samples  Recall\n"
        "a        1,000  90.0 %\n"
        "b           20       -");
  CHECK(aligned(columns, 21) ==
        "Class  Samples\n"
        "a        1,000\n"
        "b           20\n\n"
        "Class  Recall\n"
        "a      90.0 %\n"
        "b           -");
  CHECK(aligned({{"Class", "greenish yellow leaves", "b"}, {"Samples", "1", "2"}}, 20) ==
        "Class     Samples\n"
        "greenish        1\n"
        "yellow\n"
        "leaves\n"
        "b               2");
  // Two columns tell the rows apart.
  CHECK(aligned({{"Run", "x"}, {"Model", "BSP"}, {"Ratio", "0.50"}, {"p", "< 0.001"}}, 20, 2) ==
        "Run  Model  Ratio\n"
        "x      BSP   0.50\n\n"
        "Run  Model        p\n"
        "x      BSP  < 0.001");
  CHECK(aligned({{"größe", "1"}, {"x", "2"}}) == "größe  x\n1      2");
}

TEST_CASE("table: at 80, 60 and 40 columns no line is longer, and every figure is there") {
  const auto comparison = sample_comparison({.workers = 100});
  const auto words_of = [](const std::string& text) {
    std::istringstream in(text);
    return std::set<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const auto all = words_of(table_of(comparison));
  for (const std::size_t width : {80, 60, 40}) {
    CAPTURE(width);
    const std::string text = comparison_table(comparison, summarize(comparison), width);
    for (const auto& line : lines_of(text)) CHECK(line.size() <= width);
    CHECK(words_of(text) == all);
  }
}

TEST_CASE("table: the share of the linear bound, where the bound is known") {
  Comparison c = sample_comparison();
  CHECK(table_of(c).find("bound") == std::string::npos);
  c.linear_bound_seconds = 60;
  const std::string table = table_of(c);
  CHECK(table.find("Of bound") != table.npos);
  CHECK(table.find("Linear bound: 60.0 s, serial gradients") != table.npos);
  CHECK(table.find(rubato::percent_text(60 / *summarize(c)[0].time_to_target)) != table.npos);
}

TEST_CASE("table: seeds that missed the target are told, most of them as a miss") {
  auto comparison = sample_comparison();
  comparison.runs[3].time_to_target_seconds.reset();  // ASP, seed 1
  CHECK(lines_of(table_of(comparison))[4].find(" (2/3) ") != std::string::npos);
  comparison.runs[4].time_to_target_seconds.reset();
  CHECK(lines_of(table_of(comparison))[4].find("not reached       -") != std::string::npos);
}

TEST_CASE("table: where nothing was held out there is a loss and no accuracy") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  const auto columns = [&](std::size_t line) {
    std::istringstream in(lines_of(table_of(comparison))[line]);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  for (auto& evaluation : comparison.runs[0].evaluations) evaluation.accuracy = std::nan("");
  CHECK(columns(2).back() == "Accuracy");
  CHECK(columns(3).back() == "-");
  CHECK(columns(3)[columns(3).size() - 2] ==
        loss_text(final_figures(comparison, comparison.runs[0]).loss));
}

TEST_CASE("table: workers that measure a loss alone are ranked by it") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  auto& workers = comparison.runs[0].workers;
  REQUIRE(workers.size() >= 2);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    workers[i].held_out_samples = 1 + 4 * i;
    workers[i].held_out_loss = 0.25 + static_cast<double>(i);
    workers[i].held_out_accuracy = std::nan("");
  }
  const auto& last = workers.back();
  CHECK(table_of(comparison)
            .find(fmt::format("worst {} (loss {}, {}), best {} (loss 0.2500).\n", last.id,
                              loss_text(last.held_out_loss),
                              rubato::counted(last.held_out_samples, "sample"),
                              workers.front().id)) != std::string::npos);
}

TEST_CASE("table: the loss is the one that was compared with the target") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  auto& run = comparison.runs[0];
  // The last five: their mean is below the target, the last of them is not.
  run.evaluations.clear();
  for (int i = 0; i < 5; ++i)
    run.evaluations.push_back({.seconds = 10.0 * i, .loss = i < 4 ? 0.44 : 0.46, .accuracy = 0.8});
  run.time_to_target_seconds = 40;
  run.final_loss = 0.46;
  CHECK(lines_of(table_of(comparison))[3].find("  0.4440  ") != std::string::npos);
  // A real run measures once more when it has ended.
  run.evaluations.push_back({.seconds = 41, .loss = 0.9, .accuracy = 0.5});
  CHECK(lines_of(table_of(comparison))[3].find("  0.4440  ") != std::string::npos);
  comparison.target_loss.reset();
  CHECK(lines_of(table_of(comparison))[3].find("  0.4600  ") != std::string::npos);
}

TEST_CASE("table: a worker that came back is one worker") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  comparison.runs[0].workers.push_back(comparison.runs[0].workers[1]);
  CHECK(lines_of(table_of(comparison))[0].starts_with("edge-3: 3 workers, "));
}

TEST_CASE("table: without a target there is no time to it") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  comparison.target_loss.reset();
  const auto lines = lines_of(table_of(comparison));
  CHECK(lines[0] == "edge-3: 3 workers, H 1.67, 1 seed, virtual time");
  CHECK(lines[2].find("target") == std::string::npos);
  CHECK(lines[2].find("Saving") == std::string::npos);
}

TEST_CASE("table: what a model dropped, and the workers of which it used nothing") {
  auto comparison = sample_comparison({.models = {"asp", "rennala"}, .seeds = 1});
  CHECK(table_of(comparison).find("ropped") == std::string::npos);
  RunRecord& run = comparison.runs[1];
  run.commits = 1273;
  run.dropped_commits = 441;
  run.dropped_samples = 14112;
  run.workers[0].dropped_commits = run.workers[0].commits - 1;
  run.workers[1].dropped_commits = run.workers[1].commits;
  const std::string table = table_of(comparison);
  CHECK(table.find("Dropped") != std::string::npos);
  CHECK(table.find("\nRennala dropped 441 of 1,273 commits with 14,112 samples, all of pi-1.\n") !=
        std::string::npos);
}
