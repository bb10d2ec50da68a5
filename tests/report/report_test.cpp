#include "report/report_html.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <regex>
#include "base/json.hpp"

#include "report/results_json.hpp"
#include "report/table.hpp"
#include "tests/report/sample.hpp"

using namespace rubato::report;
using nlohmann::json;

namespace {

std::string page_of(const Comparison& comparison) {
  return report_html(comparison, summarize(comparison));
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

json data_of(const std::string& page) {
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const auto begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

}  // namespace

TEST_CASE("report: self-contained, nothing is loaded from anywhere") {
  const std::string page = page_of(sample_comparison());
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK_FALSE(std::regex_search(page, std::regex(R"((src|href)\s*=\s*["'][^"'#])")));
  CHECK(page.find("<link") == std::string::npos);
  CHECK(page.find("@import") == std::string::npos);
  CHECK(page.find("url(") == std::string::npos);
  CHECK(page.find("Chart.js v3") != std::string::npos);
  CHECK_FALSE(std::regex_search(page, std::regex(R"(\{\{[a-z_]+\}\})")));
}

TEST_CASE("report: text from outside never becomes markup") {
  const std::string clean = page_of(sample_comparison());
  auto hostile = sample_comparison();
  hostile.cluster = "<b>\"edge\" & co</b> {{data}}";
  hostile.config_text = "# </script><script>alert(1)</script> <!-- {{script}}\n";
  hostile.command = "rubato compare '</script>.toml'";
  hostile.runs[0].workers[0].id = "</script><img src=x onerror=alert(2)>";
  hostile.runs[9].decisions[0].reason = "<!--<script>";
  const std::string page = page_of(hostile);
  CHECK(count(page, "<script") == count(clean, "<script"));
  CHECK(count(page, "</script") == count(clean, "</script"));
  CHECK(count(page, "<!--") == count(clean, "<!--"));
  CHECK(count(page, "<img") == 0);
  CHECK(page.find("<title>&lt;b&gt;&quot;edge&quot; &amp; co&lt;/b&gt; {{data}} - Rubato") !=
        std::string::npos);
  const json data = data_of(page);
  CHECK(data["cluster"] == hostile.cluster);
  CHECK(data["config"] == hostile.config_text);
  CHECK(data["runs"][0]["workers"][0]["id"] == hostile.runs[0].workers[0].id);
}

TEST_CASE("report: the data hold the summary, every run, the decisions and their reasons") {
  auto comparison = sample_comparison();
  comparison.runs[1].refused_commits = 7;
  comparison.runs[1].dropped_commits = 5;
  comparison.runs[1].workers[2].dropped_samples = 160;
  const json data = data_of(page_of(comparison));
  const auto summaries = summarize(comparison);
  CHECK(data["headline"] == headline(comparison, summaries));
  CHECK(data["target"] == "loss 0.45");
  CHECK(data["seeds"] == json{"1", "2", "3"});
  REQUIRE(data["models"].size() == 4);
  CHECK(data["models"][3]["title"] == "ADSP");
  CHECK(data["models"][3]["time_to_target"].get<double>() == *summaries[3].time_to_target);
  REQUIRE(data["runs"].size() == 12);
  for (std::size_t model = 0; model < 4; ++model) {
    std::size_t typical = 0;
    for (const json& run : data["runs"]) {
      if (run["model"] != model || !run["typical"].get<bool>()) continue;
      ++typical;
      CHECK(run["commit_counts"]["commits"][0].size() == 3);
    }
    CHECK(typical == 1);
  }
  CHECK(data["runs"][0]["refused_commits"].is_null());  // as in a real run: nobody counted them
  CHECK(data["runs"][1]["refused_commits"] == 7);
  CHECK(data["runs"][1]["dropped_commits"] == 5);
  CHECK(data["runs"][1]["workers"][2]["dropped_samples"] == 160);
  const json& decisions = data["runs"][9]["decisions"];
  REQUIRE(decisions.size() == comparison.runs[9].decisions.size());
  CHECK(decisions[1]["quantity"] == "commit rate");
  CHECK(decisions[1]["value"] == comparison.runs[9].decisions[1].value);
  CHECK(decisions[1]["reason"] == comparison.runs[9].decisions[1].reason);
}

TEST_CASE("report: what the figures leave out stands in report, results and table") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  const auto summaries = summarize(comparison);
  CHECK(data_of(page_of(comparison))["note"] == "");
  CHECK_FALSE(json::parse(results_json(comparison)).contains("note"));
  const std::string table = comparison_table(comparison, summaries);
  comparison.note = "links are not shaped";
  CHECK(data_of(page_of(comparison))["note"] == "links are not shaped");
  CHECK(json::parse(results_json(comparison))["note"] == "links are not shaped");
  CHECK(comparison_table(comparison, summaries) == table + "links are not shaped\n");
}

TEST_CASE("report: long curves are thinned, first and last point kept, and NaN is a gap") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1, .workers = 100});
  auto& run = comparison.runs[0];
  run.evaluations.clear();
  run.commit_counts.clear();
  for (int i = 0; i < 5000; ++i) {
    run.evaluations.push_back({static_cast<double>(i), 0, 0, i == 0 ? std::nan("") : 1.0, 0.5});
    run.commit_counts.push_back({static_cast<double>(i), std::vector<std::uint64_t>(100)});
  }
  const std::string page = page_of(comparison);
  const json data = data_of(page);
  const json& curve = data["runs"][0]["evaluations"];
  CHECK(curve["seconds"].size() == 400);
  CHECK(curve["seconds"].front() == 0);
  CHECK(curve["seconds"].back() == 4999);
  CHECK(curve["loss"].front().is_null());
  CHECK(data["runs"][0]["commit_counts"]["seconds"].size() == 120);
  CHECK(page.size() < 400'000);
}

TEST_CASE("report: curves have what was measured, and the mean of the last five") {
  auto comparison = sample_comparison({.models = {"adsp"}, .seeds = 1});
  auto& evaluations = comparison.runs[0].evaluations;
  evaluations.clear();
  for (int i = 0; i < 7; ++i) {
    evaluations.push_back({static_cast<double>(i), 0, 0, static_cast<double>(i), 0.1 * i});
  }
  const json data = data_of(page_of(comparison));
  const json& curves = data["runs"][0]["evaluations"];
  CHECK(curves["loss"] == json{0, 1, 2, 3, 4, 5, 6});
  CHECK(curves["mean_loss"] == json{0, 0.5, 1, 1.5, 2, 3, 4});
  CHECK(curves["accuracy"][6].get<double>() == doctest::Approx(0.6));
  CHECK(curves["mean_accuracy"][6].get<double>() == doctest::Approx(0.4));
}
