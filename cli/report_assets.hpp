// cli/report_assets.hpp - the parts of the report page, embedded at build time by
// cli/report/embed.cmake from cli/report/ and from the installed Chart.js.
#pragma once

#include <string_view>

namespace rubato::cli {

extern const std::string_view
    report_page;  // with {{title}} {{style}} {{data}} {{chart_js}} {{script}}
extern const std::string_view report_style;
extern const std::string_view report_script;
extern const std::string_view report_chart_js;

}  // namespace rubato::cli
