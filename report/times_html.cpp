#include "report/times_html.hpp"

#include <fmt/format.h>

#include "report/record_json.hpp"
#include "report/report_assets.hpp"
#include "report/web_page.hpp"

namespace rubato::report {
namespace {

const char* kind_word(TimesRow::Kind kind) {
  switch (kind) {
    case TimesRow::Kind::Change:
      return "change";
    case TimesRow::Kind::Reference:
      return "reference";
    case TimesRow::Kind::Bound:
      return "bound";
  }
  return "";
}

Json times_row_json(const TimesRow& row) {
  return {
      {"name", row.name},
      {"kind", kind_word(row.kind)},
      {"time", chart_number(row.time)},
      {"interval", row.low < row.high ? Json::array({chart_number(row.low), chart_number(row.high)})
                                      : Json(nullptr)},
      {"reached", row.reached},
      {"runs", row.runs},
      {"cells", row.cells}};
}

}  // namespace

std::string times_html(const TimesPage& page) {
  Json rows = Json::array();
  for (const TimesRow& row : page.rows) rows.push_back(times_row_json(row));
  const Json data = {{"title", page.title},       {"cluster", page.cluster},
                     {"headline", page.headline}, {"facts", page.facts},
                     {"targeted", page.targeted}, {"virtual_time", true},
                     {"header", page.header},     {"rows", std::move(rows)},
                     {"notes", page.notes},       {"command", page.command}};
  return web_page(times_page, fmt::format("{} - Rubato, {}", page.cluster, page.title), data,
                  times_script);
}

}  // namespace rubato::report
