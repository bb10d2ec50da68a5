// What a live page and /metrics say of a run: text from data, without a server.
#include "report/live/live_page.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/json.hpp"
#include "base/worker_figures.hpp"
#include "report/live/run_metrics.hpp"
#include "report/report_assets.hpp"
#include "report/report_html.hpp"
#include "tests/report/sample.hpp"

using namespace rubato;
using namespace rubato::report;
using nlohmann::json;

namespace {

// As Scheduler::status() writes it.
json worker_row(const std::string& name) {
  return {{"name", name},
          {"state", "trains"},
          {"steps", 120},
          {"commits", 12},
          {"steps_per_second", 2.5},
          {"commits_per_second", 0.25},
          {"compute_seconds", 60.5},
          {"wait_seconds", 3},
          {"communicate_seconds", 1.5},
          {"waiting_share", 0.05},
          {"communicating_share", 0.02},
          {"up_bytes", 5000000000},
          {"down_bytes", 7000},
          {"up_bytes_per_second", 100},
          {"down_bytes_per_second", 200},
          {"heard_seconds_ago", 0.5},
          {"loss", nullptr},
          {"directive", {{"commit_rate", 4}, {"local_steps", 0}, {"period_seconds", 0}}}};
}

json status_of(const std::vector<std::string>& workers) {
  json status = {{"state", "training"},   {"sync", "adsp"},        {"seconds", 65},
                 {"steps", 240},          {"commits", 24},         {"seconds_left", 30},
                 {"loss", 0.5},           {"target_loss", 0.45},   {"accuracy", 0.8},
                 {"workers_expected", 3}, {"workers_left_out", 0}, {"task", "classification"}};
  status["servers"] = json::array(
      {{{"name", "server-0"}, {"endpoint", "tcp://a:1"}, {"state", "member"}, {"snapshot", 2}}});
  status["workers"] = json::array();
  for (const auto& name : workers) status["workers"].push_back(worker_row(name));
  return status;
}

LiveRun run_under_way(const std::vector<std::string>& workers = {"pi-0", "pi-1"}) {
  LiveRun now;
  now.record = sample_comparison({.models = {"adsp"}, .seeds = 1}).runs[0];
  now.record.time_to_target_seconds.reset();
  now.record.stop_reason = "still running";
  now.record.refused_commits = 3;
  now.record.dropped_commits = 4;
  now.status = status_of(workers).dump();
  return now;
}

const std::map<std::string, std::string> kNoLinks;

// Samples by series, with every rule of the format checked.
std::map<std::string, double> samples_of(const std::string& text) {
  static const std::regex kHelp("# HELP ([a-z0-9_]+) [A-Z^0-9].*\\.");
  static const std::regex kType("# TYPE ([a-z0-9_]+) (counter|gauge)");
  static const std::regex kSample(
      R"re(([a-z0-9_]+)((?:\{(?:[a-z_]+="(?:[^"\\]|\\["\\n])*",?)+\})?) (\S+))re");
  CHECK(text.ends_with("\n"));
  std::map<std::string, double> samples;
  std::set<std::string> families;
  std::string helped, family, type;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      helped = match[1];
      CHECK(families.insert(helped).second);  // the samples of a family are together
      continue;
    }
    if (std::regex_match(line, match, kType)) {
      family = match[1];
      type = match[2];
      CHECK(family == helped);
    } else {
      REQUIRE(std::regex_match(line, match, kSample));
      CHECK(match[1] == family);
      CHECK(samples.emplace(match[1].str() + match[2].str(), std::stod(match[3])).second);
      if (type == "counter") CHECK(samples.at(match[1].str() + match[2].str()) >= 0);
    }
    // Names: ours begin with rubato_, counters end with _total, units come last.
    CHECK(family.starts_with("rubato_"));
    CHECK(family.ends_with("_total") == (type == "counter"));
    for (const std::string unit : {"seconds", "bytes", "ratio"}) {
      if (family.find(unit) == std::string::npos) continue;
      CHECK((family.ends_with("_" + unit) || family.ends_with("_" + unit + "_total")));
    }
    for (const char* wrong : {"_ms", "milli", "percent", "_kb", "_mb"})
      CHECK(family.find(wrong) == std::string::npos);
  }
  return samples;
}

}  // namespace

TEST_CASE("metrics: names, units and figures of a run under way") {
  const LiveRun now = run_under_way();
  const Comparison comparison = sample_comparison({.models = {"bsp"}, .seeds = 2});
  const auto texts =
      live_texts({.comparison = comparison, .ended = 2, .now = &now, .links = kNoLinks});
  const auto samples = samples_of(texts.metrics);
  const std::string run = R"({sync="adsp",seed="1"})";
  CHECK(samples.at("rubato_runs_ended_total") == 2);
  CHECK(samples.at("rubato_runs_planned") == 1);
  CHECK(samples.at("rubato_training" + run) == 1);
  CHECK(samples.at("rubato_run_seconds" + run) == 65);
  CHECK(samples.at("rubato_steps_total" + run) == static_cast<double>(now.record.steps));
  CHECK(samples.at("rubato_up_bytes_total" + run) == static_cast<double>(now.record.bytes_up));
  CHECK(samples.at("rubato_refused_commits_total" + run) == 3);
  CHECK(samples.at("rubato_dropped_commits_total" + run) == 4);
  CHECK(samples.at("rubato_loss" + run) == 0.5);
  CHECK(samples.at("rubato_accuracy_ratio" + run) == 0.8);
  CHECK(samples.at("rubato_members" + run) == 2);
  const std::string worker = R"({worker="pi-1",sync="adsp",seed="1"})";
  CHECK(samples.at("rubato_worker_steps_total" + worker) == 120);
  CHECK(samples.at("rubato_worker_wait_seconds_total" + worker) == 3);
  CHECK(samples.at("rubato_worker_communicate_seconds_total" + worker) == 1.5);
  CHECK(samples.at("rubato_worker_up_bytes_total" + worker) == 5e9);
  CHECK_FALSE(samples.contains("rubato_worker_loss" + worker));  // nobody knows it
}

TEST_CASE("metrics: every figure of a worker is a family of its own") {
  LiveRun now = run_under_way();
  json status = json::parse(now.status);
  double value = 0;
  for (const rubato::WorkerFigure& row : rubato::kWorkerFigures)
    for (json& worker : status["workers"]) worker[row.name] = ++value;
  now.status = status.dump();
  const Comparison comparison = sample_comparison({.models = {"bsp"}, .seeds = 2});
  const auto texts =
      live_texts({.comparison = comparison, .ended = 2, .now = &now, .links = kNoLinks});
  const auto samples = samples_of(texts.metrics);
  value = 0;
  for (const rubato::WorkerFigure& row : rubato::kWorkerFigures)
    for (const std::string worker : {"pi-0", "pi-1"}) {
      CAPTURE(row.name);
      const std::string labels = "{worker=\"" + worker + R"(",sync="adsp",seed="1"})";
      CHECK(samples.at(std::string("rubato_worker_") + row.name + "_total" + labels) == ++value);
    }
}

TEST_CASE("metrics: the Grafana dashboard asks for figures that there are") {
  LiveRun now = run_under_way();
  json status = json::parse(now.status);
  for (json& worker : status["workers"]) worker["loss"] = 0.5;
  now.status = status.dump();
  const Comparison comparison = sample_comparison({.models = {"bsp"}, .seeds = 1});
  const std::string metrics =
      live_texts({.comparison = comparison, .ended = 1, .now = &now, .links = kNoLinks}).metrics;
  std::ifstream file(RUBATO_SOURCE_DIR "/deploy/grafana/rubato.json");
  std::size_t asked = 0;
  const json dashboard = json::parse(file);
  for (const json& panel : dashboard["panels"]) {
    for (const json& target : panel["targets"]) {
      const std::string query = target["expr"];
      std::smatch name;
      REQUIRE(std::regex_search(query, name, std::regex("rubato_[a-z_]+")));
      CHECK_MESSAGE(metrics.find("# TYPE " + name.str() + " ") != std::string::npos, query);
      CHECK(name.str().ends_with("_total") ==
            (query.starts_with("rate(") || query.starts_with("increase(") ||
             name.str() == "rubato_runs_ended_total"));
      ++asked;
    }
  }
  CHECK(asked >= 10);
}

TEST_CASE("metrics: before the first run, and of a regression") {
  const Comparison comparison = sample_comparison({.models = {"bsp"}, .seeds = 1});
  const auto texts = live_texts({.comparison = comparison, .links = kNoLinks});
  const auto samples = samples_of(texts.metrics);
  CHECK(samples.at(R"(rubato_training{sync="bsp",seed="1"})") == 0);
  CHECK_FALSE(samples.contains(R"(rubato_loss{sync="bsp",seed="1"})"));
  MetricsText metrics;
  add_run_metrics(metrics, comparison.runs[0], status_of({}), Task::Regression);
  CHECK(samples_of(metrics.take()).at(R"(rubato_r_squared{sync="bsp",seed="1"})") == 0.8);
}

TEST_CASE("live page: recall, F1 and AUC where a run has them, in its line, headline and metrics") {
  LiveRun now = run_under_way();
  json status = json::parse(now.status);
  status["recall"] = 0.25;
  status["f1"] = 0.625;
  status["auc"] = 0.96875;
  status["target_recall"] = 0.9;
  now.status = status.dump();
  const Comparison comparison = sample_comparison({.models = {"bsp"}, .seeds = 1});
  const auto texts = live_texts({.comparison = comparison, .now = &now, .links = kNoLinks});
  const json data = json::parse(texts.data);
  const auto has = [](const json& text, const std::string& part) {
    return text.get<std::string>().find(part) != std::string::npos;
  };
  CHECK(has(data["live"]["line"], ", lowest recall 0.2500 (target 0.9), F1 0.6250, AUC 0.9688"));
  CHECK(has(data["headline"], ", lowest recall 0.2500 (target 0.9)"));
  CHECK_FALSE(has(data["headline"], "AUC"));
  const auto samples = samples_of(texts.metrics);
  CHECK(samples.at(R"(rubato_recall_ratio{sync="adsp",seed="1"})") == 0.25);
  CHECK(samples.at(R"(rubato_f1_ratio{sync="adsp",seed="1"})") == 0.625);
  CHECK(samples.at(R"(rubato_auc_ratio{sync="adsp",seed="1"})") == 0.96875);
}

TEST_CASE("metrics: a name from outside stays inside its label") {
  const LiveRun now = run_under_way({"a\"} 1\nrubato_steps_total{worker=\"b\\"});
  const Comparison comparison = sample_comparison({.models = {"bsp"}, .seeds = 1});
  const auto texts =
      live_texts({.comparison = comparison, .ended = 1, .now = &now, .links = kNoLinks});
  CHECK(samples_of(texts.metrics)
            .at("rubato_worker_steps_total{worker=\"a\\\"} "
                "1?rubato_steps_total{worker=\\\"b\\\\\",sync=\"adsp\",seed=\"1\"}") == 120);
}

TEST_CASE("live page: the data are those of the report, the run under way among them") {
  const LiveRun now = run_under_way();
  Comparison comparison = sample_comparison({.models = {"bsp"}, .seeds = 2});
  comparison.planned_runs = 4;
  const std::map<std::string, std::string> links{{"pi-0", "20 ms"}};
  const auto texts =
      live_texts({.comparison = comparison, .ended = 2, .now = &now, .links = links});
  CHECK(texts.data.find('\n') == std::string::npos);  // one event
  const json data = json::parse(texts.data);
  REQUIRE(data["runs"].size() == 3);
  CHECK(data["runs"][2]["seconds"] == 65);
  CHECK(data["runs"][2]["stop_reason"] == "still running");
  CHECK(data["runs"][2]["decisions"].size() > 0);
  CHECK(data["partial"] ==
        "This page grows: a run that goes on has its figures so far. 2 of 4 runs have ended.");
  const json& live = data["live"];
  CHECK(live["over"] == false);
  CHECK(live["line"].get<std::string>().starts_with("training (adsp) since 65"));
  REQUIRE(live["workers"].size() == 2);
  CHECK(live["workers"][0]["order"] == "rate 4");
  CHECK(live["workers"][0]["link"] == "20 ms");
  CHECK(live["workers"][1]["link"] == "");
  CHECK(live["servers"][0]["name"] == "server-0");
}

TEST_CASE("live page: the headline is the loss and the time left") {
  LiveRun now = run_under_way();
  Comparison comparison = sample_comparison({.models = {"bsp"}, .seeds = 2});
  comparison.planned_runs = 1;
  const auto headline_with = [&](const json& changes) {
    json status = status_of({"pi-0"});
    status.update(changes);
    now.status = status.dump();
    const auto texts =
        live_texts({.comparison = comparison, .ended = 2, .now = &now, .links = kNoLinks});
    return json::parse(texts.data)["headline"].get<std::string>();
  };
  CHECK(headline_with(json::object()) == "Loss 0.5000 (target 0.4500), 30.0 s left");
  CHECK(headline_with({{"target_loss", nullptr}, {"target_accuracy", 0.9}}) ==
        "Loss 0.5000, accuracy 80.0 % (target 90 %), 30.0 s left");
  CHECK(headline_with({{"loss", nullptr}, {"seconds_left", nullptr}}) ==
        "No loss is measured yet (target 0.4500), time left not known yet");
  CHECK(headline_with({{"stop_reason", "target reached"}}) ==
        "Loss 0.5000 (target 0.4500): target reached");
  CHECK(headline_with({{"state", "waiting"}, {"waiting_for", "2 of 3 workers"}}) ==
        "Waiting for 2 of 3 workers");
  comparison.planned_runs = 4;
  CHECK(headline_with(json::object()) ==
        "Run 3 of 4, ADSP: Loss 0.5000 (target 0.4500), 30.0 s left");
  const auto between = live_texts({.comparison = comparison, .ended = 2, .links = kNoLinks});
  CHECK(json::parse(between.data)["headline"] == "The next run begins.");
}

TEST_CASE("live page: the end says where the report is, and has its words") {
  const Comparison comparison = sample_comparison();
  const auto texts = live_texts({.comparison = comparison,
                                 .ended = 12,
                                 .links = kNoLinks,
                                 .over = true,
                                 .report = "/out/report.html"});
  const json data = json::parse(texts.data);
  CHECK(data["live"]["over"] == true);
  CHECK(data["live"]["line"] == "The command has ended. Its report is /out/report.html");
  CHECK(data["headline"] == headline(comparison, summarize(comparison)));
  CHECK(data["partial"] == "");
  samples_of(texts.metrics);
}

TEST_CASE("live page: only it talks to its server") {
  for (const auto page : {live_report_page, live_study_page}) {
    CHECK(page.find("connect-src 'self';") != std::string_view::npos);
    CHECK(page.find("id=\"members\"") != std::string_view::npos);
    CHECK(page.find("no network") == std::string_view::npos);
  }
  for (const auto script : {live_report_script, live_study_script})
    CHECK(script.find("EventSource") != std::string_view::npos);
  const auto comparison = sample_comparison();
  const std::string report = report_html(comparison, summarize(comparison));
  for (const char* word : {"EventSource", "connect-src", "id=\"members\""})
    CHECK(report.find(word) == std::string::npos);
}
