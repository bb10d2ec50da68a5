# Writes OUTPUT, a C++ file that holds the reports' parts as string literals (report_assets.hpp).
# Inputs: SOURCE_DIR (this folder), CHART_JS (Chart.js as one script), OUTPUT.
file(READ ${SOURCE_DIR}/report.html report_page)
file(READ ${SOURCE_DIR}/study.html study_page)
file(READ ${SOURCE_DIR}/evaluation.html evaluation_page)
file(READ ${SOURCE_DIR}/report.css report_style)
file(READ ${CHART_JS} report_chart_js)
set(report_parts format charts tables bars curves workers page)
set(study_parts format charts tables bars study_charts study_page)
set(evaluation_parts format tables evaluation_page)
foreach(page report study evaluation)
  set(${page}_script "")
  foreach(part ${${page}_parts})
    file(READ ${SOURCE_DIR}/${part}.js text)
    string(APPEND ${page}_script "${text}")
  endforeach()
endforeach()

set(code "#include \"cli/report_assets.hpp\"\n\nnamespace rubato::cli {\n")
foreach(asset report_page report_style report_script report_chart_js study_page study_script
        evaluation_page evaluation_script)
  string(APPEND code "const std::string_view ${asset} = R\"embedded(${${asset}})embedded\";\n")
endforeach()
file(WRITE ${OUTPUT} "${code}}  // namespace rubato::cli\n")
