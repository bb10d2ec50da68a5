# Writes OUTPUT, a C++ file with the commit that this program is built from: `git describe` of
# SOURCE_DIR, or "unknown" outside a repository. The file changes only when the commit does.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit)
  set(commit unknown)
endif()
set(code "#include \"report/host_info.hpp\"\n\nnamespace rubato::report {\n\nstd::string_view commit() {\n  return \"${commit}\";\n}\n\n}  // namespace rubato::report\n")
set(written "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} written)
endif()
if(NOT written STREQUAL code)
  file(WRITE ${OUTPUT} "${code}")
endif()
