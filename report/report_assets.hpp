// report/report_assets.hpp - the parts of the report pages, embedded at build time by
// cli/report/embed.cmake from cli/report/ and from the installed Chart.js.
#pragma once

#include <string_view>

namespace rubato::report {

// Pages with {{title}} {{style}} {{data}} {{chart_js}} {{script}}, in this order; one without
// charts has no {{chart_js}}.
extern const std::string_view report_page;  // of a comparison
extern const std::string_view study_page;
extern const std::string_view evaluation_page;   // of one model
extern const std::string_view regression_page;   // of one model that predicts numbers
extern const std::string_view runs_page;         // of several run directories
extern const std::string_view times_page;        // of times to a target
extern const std::string_view live_report_page;  // of a comparison that grows
extern const std::string_view live_study_page;
extern const std::string_view report_style;  // of all
extern const std::string_view report_script;
extern const std::string_view study_script;
extern const std::string_view live_report_script;
extern const std::string_view live_study_script;
extern const std::string_view evaluation_script;
extern const std::string_view regression_script;
extern const std::string_view runs_script;
extern const std::string_view times_script;
extern const std::string_view report_chart_js;

}  // namespace rubato::report
