# Writes OUTPUT, a C++ file that holds the reports' parts as string literals (report_assets.hpp).
# Inputs: SOURCE_DIR (this folder), CHART_JS (Chart.js as one script), OUTPUT.
file(READ ${SOURCE_DIR}/head.html head)
file(READ ${SOURCE_DIR}/report.css report_style)
file(READ ${CHART_JS} report_chart_js)
set(report_parts format charts tables bars curves workers page)
set(study_parts format charts tables bars study_charts study_page)
set(evaluation_parts format tables evaluation_page)
set(regression_parts format tables regression_page)
foreach(page report study evaluation regression)
  file(READ ${SOURCE_DIR}/${page}.html body)
  set(${page}_page "${head}${body}")
  set(${page}_script "")
  foreach(part ${${page}_parts})
    file(READ ${SOURCE_DIR}/${part}.js text)
    string(APPEND ${page}_script "${text}")
  endforeach()
endforeach()

# The same pages while they grow: they hear from their own server, and from nobody else.
file(READ ${SOURCE_DIR}/live.html live_section)
file(READ ${SOURCE_DIR}/live.js live_script)
foreach(page report study)
  string(REPLACE "default-src 'none';" "default-src 'none'; connect-src 'self';" body "${${page}_page}")
  string(REPLACE "<main>" "<main>\n${live_section}" body "${body}")
  string(REPLACE "One file, no network." "This page grows until its command ends." body "${body}")
  set(live_${page}_page "${body}")
  set(live_${page}_script "${${page}_script}${live_script}")
endforeach()

set(code "#include \"cli/report_assets.hpp\"\n\nnamespace rubato::cli {\n")
foreach(asset report_page report_style report_script report_chart_js study_page study_script
        evaluation_page evaluation_script regression_page regression_script live_report_page
        live_report_script live_study_page live_study_script)
  string(APPEND code "const std::string_view ${asset} = R\"embedded(${${asset}})embedded\";\n")
endforeach()
file(WRITE ${OUTPUT} "${code}}  // namespace rubato::cli\n")
