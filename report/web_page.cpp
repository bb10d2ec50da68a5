#include "report/web_page.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/quote.hpp"
#include "report/report_assets.hpp"

namespace rubato::report {
namespace {

using Json = OrderedJson;

}  // namespace

std::string web_page(std::string_view page, std::string_view title, const Json& data,
                     std::string_view script) {
  const std::string safe_title = html_text(title);
  const std::string safe_data = script_json(json_text(data));
  const std::pair<std::string_view, std::string_view> parts[] = {{"{{title}}", safe_title},
                                                                 {"{{style}}", report_style},
                                                                 {"{{data}}", safe_data},
                                                                 {"{{chart_js}}", report_chart_js},
                                                                 {"{{script}}", script}};
  // In the order of the page, so that a marker inside a part stays text.
  std::string filled;
  std::string_view rest = page;
  for (const auto& [marker, text] : parts) {
    const auto at = rest.find(marker);
    if (at == std::string_view::npos && marker == "{{chart_js}}") continue;  // draws no charts
    RUBATO_CHECK(at != std::string_view::npos, "a page lacks a marker");
    filled.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + marker.size());
  }
  return filled.append(rest);
}

Json chart_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json chart_number(const std::optional<double>& value) {
  return value ? chart_number(*value) : Json(nullptr);
}

Json style_json(const ModelStyle& style) {
  return {{"light", style.light},
          {"dark", style.dark},
          {"mark", style.mark},
          {"hollow", style.hollow},
          {"dash", style.dash}};
}

Json page_figure(Task task) {
  const Figure figure = figure_of(task);
  return {{"title", figure.title}, {"word", figure.word}, {"percent", figure.percent}};
}

}  // namespace rubato::report
