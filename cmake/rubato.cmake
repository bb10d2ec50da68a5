# Flags and helpers shared by every folder. Each folder's CMakeLists lists its files and its links.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

add_library(rubato_warnings INTERFACE)
target_compile_options(rubato_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # False alarms of GCC 12 inside std::string at -O2 and up (GCC bug 105651).
  target_compile_options(rubato_warnings INTERFACE -Wno-restrict)
endif()
target_include_directories(rubato_warnings INTERFACE ${PROJECT_SOURCE_DIR})

# rubato_library(NAME SOURCES a.cpp b.cpp LINKS x y): static library rubato::NAME.
function(rubato_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(rubato_${name} STATIC ${ARG_SOURCES})
  add_library(rubato::${name} ALIAS rubato_${name})
  target_link_libraries(rubato_${name} PUBLIC rubato_warnings ${ARG_LINKS})
endfunction()
