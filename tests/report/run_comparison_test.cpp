#include "report/run_comparison.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include "base/json.hpp"

#include "report/runs_html.hpp"
#include "tests/report/sample.hpp"

using namespace rubato::report;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The definition itself: all ways to choose which values are the first set's. U counts pairs, ties
// half; a division is as far as U is from its middle.
double by_enumeration(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> all = one;
  all.insert(all.end(), other.begin(), other.end());
  const auto distance = [&](const std::vector<bool>& chosen) {
    double u = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t k = 0; k < all.size(); ++k)
        if (chosen[i] && !chosen[k]) u += all[i] > all[k] ? 1 : all[i] == all[k] ? 0.5 : 0;
    return std::abs(u - static_cast<double>(one.size() * other.size()) / 2);
  };
  std::vector<bool> chosen(all.size());
  for (std::size_t i = 0; i < one.size(); ++i) chosen[i] = true;
  const double seen = distance(chosen);
  std::sort(chosen.begin(), chosen.end());
  double far = 0, count = 0;
  do {
    ++count;
    if (distance(chosen) >= seen) ++far;
  } while (std::next_permutation(chosen.begin(), chosen.end()));
  return far / count;
}

NamedComparison named(const std::string& name, const std::vector<std::string>& models,
                      std::size_t seeds) {
  return {name, sample_comparison({.models = models, .seeds = seeds})};
}

}  // namespace

TEST_CASE("Mann-Whitney: published tables and closed forms") {
  // Complete separation of n and m: 2 of the C(n + m, n) divisions are as extreme.
  CHECK(mann_whitney({1, 2, 3}, {4, 5, 6}) == doctest::Approx(2.0 / 20));
  CHECK(mann_whitney({1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}) == doctest::Approx(2.0 / 252));
  // The critical value of U at 5 %, two-sided, for n = m = 5 is 2: p(U <= 2) = 8 / 252.
  CHECK(mann_whitney({1, 2, 3, 4, 7}, {5, 6, 8, 9, 10}) == doctest::Approx(8.0 / 252));
  CHECK(mann_whitney({1}, {2}) == 1);
  CHECK(mann_whitney({5, 5, 5}, {5, 5, 5}) == 1);
  CHECK(mann_whitney({1, 2, kNever}, {kNever, kNever, kNever}) ==
        doctest::Approx(by_enumeration({1, 2, 100}, {100, 100, 100})));
}

TEST_CASE("Mann-Whitney: equal to the enumeration of all divisions, ties included") {
  CHECK(rc::check([] {
    const auto values = [](int size) {
      return *rc::gen::container<std::vector<double>>(
          static_cast<std::size_t>(size),
          rc::gen::map(rc::gen::inRange(0, 6), [](int v) { return static_cast<double>(v); }));
    };
    const auto one = values(*rc::gen::inRange(1, 6));
    const auto other = values(*rc::gen::inRange(1, 6));
    RC_ASSERT(std::abs(mann_whitney(one, other) - by_enumeration(one, other)) < 1e-12);
    RC_ASSERT(std::abs(mann_whitney(one, other) - mann_whitney(other, one)) < 1e-12);
  }));
}

TEST_CASE("Mann-Whitney: beyond 100 values the approximation goes on from the exact test") {
  std::vector<double> one, other;
  for (int i = 0; i < 50; ++i) {
    one.push_back(i);
    other.push_back(i + 10.5);
  }
  const double exact = mann_whitney(one, other);
  other.push_back(35.25);
  const double normal = mann_whitney(one, other);
  CHECK(exact > 0.001);
  CHECK(exact < 0.05);
  CHECK(normal == doctest::Approx(exact).epsilon(0.25));
}

TEST_CASE("bootstrap: the same each time, around the median, and infinity is a value") {
  const std::vector<double> values{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  const Interval interval = bootstrap_median(values);
  CHECK(interval.low == bootstrap_median(values).low);
  CHECK(interval.low < 3.5);
  CHECK(interval.high > 3.5);
  CHECK(interval.low >= 1);
  CHECK(interval.high <= 9);
  CHECK(bootstrap_median({7}).low == 7);
  CHECK(bootstrap_median({7}).high == 7);
  CHECK(std::isinf(bootstrap_median({1, 2, kNever}).high));
}

TEST_CASE("bootstrap: of three values the ends are the ends of the values") {
  // P(median of three draws = smallest) = (1/3)^3 + 3 (1/3)^2 (2/3) = 7/27 > 2.5 %.
  CHECK(bootstrap_median({1, 2, 3}).low == 1);
  CHECK(bootstrap_median({1, 2, 3}).high == 3);
}

TEST_CASE("side by side: a row stands against its model in the first directory") {
  const auto all = side_by_side({named("monday", {"bsp", "adsp"}, 3), named("friday", {"adsp"}, 3),
                                 named("sunday", {"ssp"}, 3)});
  REQUIRE(all.has_value());
  REQUIRE(all->rows.size() == 4);
  CHECK_FALSE(all->rows[0].difference.has_value());
  CHECK(all->rows[1].difference->reference == 0);
  CHECK(all->rows[2].difference->reference == 1);
  CHECK(all->rows[3].difference->reference == 0);
  CHECK(all->rows[1].difference->ratio ==
        doctest::Approx(all->rows[1].median / all->rows[0].median));
  CHECK(all->rows[1].difference->chance == mann_whitney(all->rows[1].values, all->rows[0].values));
}

TEST_CASE("side by side: table, CSV and LaTeX have a line for each row") {
  auto one = named("a_b", {"bsp", "adsp"}, 3);
  one.comparison.runs[0].time_to_target_seconds.reset();
  const auto all = side_by_side({one});
  REQUIRE(all.has_value());
  const std::string table = side_by_side_table(*all);
  CHECK(table.starts_with("Time to loss 0.45\n"));
  CHECK(table.find("a_b BSP") != std::string::npos);
  CHECK(table.find("2/3") != std::string::npos);
  const std::string csv = side_by_side_csv(*all);
  CHECK(csv.starts_with("run,sync,seeds,reached,time_to_target_s,time_to_target_s_low,"));
  CHECK(std::ranges::count(csv, '\n') == 3);
  const std::string latex = side_by_side_latex(*all);
  CHECK(latex.find("a\\_b & BSP & 2/3 & ") != std::string::npos);
  CHECK(latex.find("95 \\% interval") != std::string::npos);
}

TEST_CASE("side by side: what does not fit together is one line") {
  auto other = named("friday", {"adsp"}, 3);
  other.comparison.target_loss = 0.5;
  const auto targets = side_by_side({named("monday", {"adsp"}, 3), other});
  REQUIRE_FALSE(targets.has_value());
  CHECK(targets.error().message.starts_with("friday: target loss 0.5, but monday has loss 0.45;"));
  other = named("friday", {"adsp"}, 3);
  other.comparison.task = rubato::Task::Regression;
  CHECK_FALSE(side_by_side({named("monday", {"adsp"}, 3), other}).has_value());
}

TEST_CASE("the page of runs: a curve for every run, a row and a style for every model of each") {
  const std::vector<NamedComparison> runs{named("monday", {"bsp", "adsp"}, 3),
                                          named("tuesday", {"adsp"}, 2)};
  const auto all = side_by_side(runs);
  REQUIRE(all);
  const std::string page = runs_html(runs, *all);
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const auto begin = page.find(open) + open.size();
  const auto data =
      nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  REQUIRE(data["models"].size() == 3);
  CHECK(data["models"][2]["title"] == "tuesday ADSP");
  std::set<std::string> colours;
  for (const auto& model : data["models"]) colours.insert(model["style"]["light"]);
  CHECK(colours.size() == 3);
  CHECK(data["models"][1]["style"]["light"] == model_style("adsp").light);
  const auto cells = side_by_side_cells(*all);
  CHECK(data["header"] == cells[0]);
  for (std::size_t i = 0; i < 3; ++i) CHECK(data["rows"][i]["cells"] == cells[i + 1]);
  REQUIRE(data["runs"].size() == 8);
  std::vector<std::size_t> curves(3), typical(3);
  for (const auto& run : data["runs"]) {
    ++curves[run["model"].get<std::size_t>()];
    typical[run["model"].get<std::size_t>()] += run["typical"].get<bool>() ? 1 : 0;
    CHECK(run["evaluations"]["loss"].size() == run["evaluations"]["steps"].size());
  }
  CHECK(curves == std::vector<std::size_t>{3, 3, 2});
  CHECK(typical == std::vector<std::size_t>{1, 1, 1});
  CHECK(data["directories"][1]["name"] == "tuesday");
}

TEST_CASE("the page of runs: its headline names the best and the worst") {
  const auto row = [](const char* run, double median) {
    return SideBySideRow{run, "adsp", "ADSP", {median}, 1, median, {median, median}, {}};
  };
  CHECK(runs_headline({"loss 0.45", {row("a", 90), row("b", 30)}}) ==
        "b ADSP has the shortest time to loss 0.45: 30.0 s; a ADSP took longest: 90.0 s.");
  CHECK(runs_headline({"loss 0.45", {row("a", kNever), row("b", 30)}}) ==
        "b ADSP has the shortest time to loss 0.45: 30.0 s; a ADSP did not reach it.");
  CHECK(runs_headline({"loss 0.45", {row("a", kNever)}}) ==
        "No run reached loss 0.45 in most of its seeds.");
  CHECK(runs_headline({"", {row("a", 0.5), row("b", 0.25)}}) ==
        "b ADSP has the lowest final loss: 0.2500; a ADSP has the highest: 0.5000.");
  CHECK(runs_headline({"", {row("a", 0.5), row("b", kNever)}}) ==
        "a ADSP has the lowest final loss: 0.5000; b ADSP diverged.");
}
