#include "report/study/live_study.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/words.hpp"
#include "report/live/run_metrics.hpp"
#include "report/report_assets.hpp"
#include "report/study/study_report.hpp"
#include "report/web_page.hpp"

namespace rubato::report {
namespace {

using Json = OrderedJson;

LiveBoard::Render render_of(const StudyResults& results, std::size_t ended, std::size_t planned,
                            bool over) {
  return [kept = std::make_shared<const StudyResults>(results), ended, planned, over] {
    Json data = study_data(*kept, summarize(*kept));
    if (!over && !data["answer"].get_ref<const std::string&>().empty())
      data["answer"] = "So far: " + data["answer"].get<std::string>();
    std::string line = fmt::format("{} of {} ended.", ended, counted(planned, "run"));
    if (over) line += " The command has ended, too.";
    data["live"] = {{"line", line}, {"over", over}};
    MetricsText metrics;
    add_progress_metrics(metrics, kept->host, ended, planned);
    return LiveTexts{json_text(data), metrics.take()};
  };
}

}  // namespace

Result<std::unique_ptr<LiveStudy>> LiveStudy::open(const std::string& address,
                                                   const StudyResults& first, std::size_t planned) {
  const auto board = std::make_shared<LiveBoard>(render_of(first, 0, planned, false));
  auto page = std::make_unique<LiveStudy>(board, planned);
  RUBATO_ASSIGN(page->server_, LiveServer::open(address, board, [](const std::string& text) {
                  const Json data = Json::parse(text);
                  return web_page(live_study_page, data.at("name").get<std::string>() + " - Rubato",
                                  data, live_study_script);
                }));
  return page;
}

void LiveStudy::offer(const StudyResults& results, std::size_t ended) {
  board_->offer([&] { return render_of(results, ended, planned_, false); });
}

void LiveStudy::end(const StudyResults& results, std::size_t ended) {
  board_->publish(render_of(results, ended, planned_, true));
}

}  // namespace rubato::report
