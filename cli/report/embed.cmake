# Writes OUTPUT, a C++ file that holds the report's parts as string literals (report_assets.hpp).
# Inputs: SOURCE_DIR (this folder), CHART_JS (Chart.js as one script), OUTPUT.
file(READ ${SOURCE_DIR}/report.html page)
file(READ ${SOURCE_DIR}/report.css style)
file(READ ${CHART_JS} chart_js)
set(script "")
foreach(part format curves bars_and_workers page)
  file(READ ${SOURCE_DIR}/${part}.js text)
  string(APPEND script "${text}")
endforeach()

set(code "#include \"cli/report_assets.hpp\"\n\nnamespace rubato::cli {\n")
foreach(asset page style script chart_js)
  string(APPEND code "const std::string_view report_${asset} = R\"embedded(${${asset}})embedded\";\n")
endforeach()
file(WRITE ${OUTPUT} "${code}}  // namespace rubato::cli\n")
