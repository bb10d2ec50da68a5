#include "report/live/live_page.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "report/live/run_metrics.hpp"
#include "report/report_assets.hpp"
#include "report/report_html.hpp"
#include "report/status_text.hpp"
#include "report/web_page.hpp"

namespace rubato::report {
namespace {

using Json = OrderedJson;

Json parsed(const LiveRun* now) {
  Json status = now ? Json::parse(now->status, nullptr, false) : Json();
  return status.is_object() ? status : Json::object();
}

// The members' rows, each with its order and its link in words.
Json members(const Json& status, const std::map<std::string, std::string>& links) {
  Json rows = Json::array();
  if (!status.contains("workers")) return rows;
  for (Json row : status.at("workers")) {
    row["order"] = directive_text(row);
    const auto link = links.find(text_of(row, "name"));
    row["link"] = link == links.end() ? "" : link->second;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string line_of(const LiveState& state, const Json& status) {
  if (state.over)
    return state.report.empty() ? "The command has ended."
                                : "The command has ended. Its report is " + state.report;
  if (status.empty()) return "The next run begins.";
  return run_line(status);
}

// What a reader of a run asks first: "Loss 0.5120 (target 0.4500), 3 min 20 s left".
std::string headline_of(const LiveState& state, const Comparison& shown, const Json& status) {
  const std::string run = shown.planned_runs > 1
                              ? fmt::format("Run {} of {}, {}: ", state.ended + 1,
                                            shown.planned_runs, model_title(shown.runs.back().sync))
                              : "";
  if (status.empty()) return line_of(state, status);
  if (text_of(status, "state") == "waiting")
    return run + "Waiting for " + text_of(status, "waiting_for");
  std::string text = "No loss is measured yet";
  if (has_number(status, "loss")) text = "Loss " + loss_text(number_of(status, "loss"));
  if (has_number(status, "target_loss"))
    text += fmt::format(" (target {})", loss_text(number_of(status, "target_loss")));
  if (has_number(status, "accuracy") && has_number(status, "target_accuracy")) {
    const Figure figure = figure_of(shown.task);
    text += fmt::format(", {} {} (target {})", figure.word,
                        figure_text(figure, number_of(status, "accuracy")),
                        figure_target_text(figure, number_of(status, "target_accuracy")));
  }
  text += class_figures_text(status, true);
  if (const std::string why = text_of(status, "stop_reason"); !why.empty())
    return run + text + ": " + why;
  return run + text +
         (has_number(status, "seconds_left")
              ? fmt::format(", {} left", duration_text(number_of(status, "seconds_left")))
              : ", time left not known yet");
}

}  // namespace

struct LivePage::Facts {
  Comparison comparison;  // with the runs that have ended
  RunRecord first;
  std::map<std::string, std::string> links;
};

LiveTexts live_texts(const LiveState& state) {
  const Json status = parsed(state.now);
  Comparison shown = state.comparison;
  if (state.now) {
    shown.runs.push_back(state.now->record);
    shown.runs.back().seconds = std::max(0.0, number_of(status, "seconds"));
  }
  const std::string line = line_of(state, status);
  if (!state.over) {
    shown.partial = "This page grows: a run that goes on has its figures so far.";
    if (shown.planned_runs > 1)
      shown.partial += fmt::format(" {} of {} runs have ended.", state.ended, shown.planned_runs);
  }
  Json data = report_data(shown, summarize(shown));
  if (!state.over) data["headline"] = headline_of(state, shown, status);
  data["live"] = {{"line", line},
                  {"over", state.over},
                  {"servers", status.contains("servers") ? status.at("servers") : Json::array()},
                  {"workers", members(status, state.links)},
                  {"left_out", number_of(status, "workers_left_out")}};
  MetricsText metrics;
  add_progress_metrics(metrics, shown.host, state.ended, shown.planned_runs);
  if (!state.over) add_run_metrics(metrics, shown.runs.back(), status, shown.task);
  return {json_text(data), metrics.take()};
}

Result<std::unique_ptr<LivePage>> LivePage::open(LivePageOptions options) {
  const auto facts = std::make_shared<const Facts>(
      Facts{std::move(options.comparison), std::move(options.first), std::move(options.links)});
  const auto first = [facts] {
    Comparison comparison = facts->comparison;
    comparison.runs.push_back(facts->first);
    return live_texts({.comparison = comparison, .links = facts->links});
  };
  const auto board = std::make_shared<LiveBoard>(first);
  auto page = std::make_unique<LivePage>(facts, board);
  const std::string title = facts->comparison.cluster + " - Rubato";
  RUBATO_ASSIGN(page->server_,
                LiveServer::open(options.address, board, [title](const std::string& data) {
                  return web_page(live_report_page, title, Json::parse(data), live_report_script);
                }));
  return page;
}

void LivePage::offer(const std::function<LiveRun()>& take) {
  board_->offer([&]() -> LiveBoard::Render {
    const auto now = std::make_shared<const LiveRun>(take());
    return [facts = facts_, now] {
      return live_texts({.comparison = facts->comparison,
                         .ended = facts->comparison.runs.size(),
                         .now = now.get(),
                         .links = facts->links});
    };
  });
}

void LivePage::add(RunRecord run) {
  auto facts = std::make_shared<Facts>(*facts_);
  facts->comparison.runs.push_back(std::move(run));
  facts_ = std::move(facts);
  board_->publish([facts = facts_] {
    return live_texts({.comparison = facts->comparison,
                       .ended = facts->comparison.runs.size(),
                       .links = facts->links});
  });
}

void LivePage::end(const std::string& report) {
  if (facts_->comparison.runs.empty()) return;
  board_->publish([facts = facts_, report] {
    return live_texts({.comparison = facts->comparison,
                       .ended = facts->comparison.runs.size(),
                       .links = facts->links,
                       .over = true,
                       .report = report});
  });
}

}  // namespace rubato::report
