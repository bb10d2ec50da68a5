# Flags and helpers shared by every folder. Each folder's CMakeLists lists its files and its links.
include(GNUInstallDirs)
find_package(Threads REQUIRED)

# rubato_package(NAME HOW): a package without which nothing goes on, and how to get it.
macro(rubato_package name how)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} is missing. On Debian, ${how}.")
  endif()
endmacro()
rubato_package(fmt "deploy/install.sh build run brings what a build needs")

# The quickest linker that is here, for builds that are made often.
option(RUBATO_QUICK_LINKER "Link by mold, lld or gold, where the compiler finds one" OFF)
if(RUBATO_QUICK_LINKER)
  include(CheckLinkerFlag)
  foreach(linker mold lld gold)
    check_linker_flag(CXX -fuse-ld=${linker} RUBATO_HAS_${linker})
    if(RUBATO_HAS_${linker})
      add_link_options(-fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()

option(RUBATO_TIDY "Look at each file with clang-tidy" OFF)
if(RUBATO_TIDY)
  find_program(CLANG_TIDY NAMES clang-tidy-16 clang-tidy-19 REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${CLANG_TIDY} --quiet)
endif()

# rubato_onnx(): targets ${onnx}onnx and ${onnx}onnx_proto. ONNX 1.17 has a namespace for them.
macro(rubato_onnx)
  find_package(Protobuf REQUIRED)
  find_package(ONNX REQUIRED)
  set(onnx)
  if(TARGET ONNX::onnx)
    set(onnx ONNX::)
  endif()
endmacro()

# Warnings are errors of the compilers that the tests run with. Newer ones have more, and some are
# false.
set(rubato_warning_flags -Wall -Wextra -Wpedantic -Wshadow)
if((CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15)
    OR (CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 20))
  list(APPEND rubato_warning_flags -Werror)
endif()
add_library(rubato_warnings INTERFACE)
target_compile_options(rubato_warnings INTERFACE ${rubato_warning_flags})
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # False alarms of GCC 12 inside std::string at -O2 and up (GCC bug 105651).
  target_compile_options(rubato_warnings INTERFACE -Wno-restrict)
endif()
# librubato.so is made of the same archives as the programs, of the functions that it needs. Code for
# it is as quick where nobody replaces its functions.
target_compile_options(rubato_warnings INTERFACE
  -fPIC -fno-semantic-interposition -ffunction-sections -fdata-sections)
target_include_directories(rubato_warnings INTERFACE ${PROJECT_SOURCE_DIR})

# With RUBATO_UNITY the compiler reads up to `batch` files of a target as one (0: all of them; 1: each
# by itself). Two files of a folder then share their unnamed namespaces. And the headers that nearly
# all files use have been read before: those of `headers`, a target of rubato_headers().
function(rubato_unity target batch headers)
  if(NOT RUBATO_UNITY)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
  if(NOT batch EQUAL 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()

# rubato_headers(NAME header...): what rubato_unity() needs.
function(rubato_headers name)
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/headers.cpp)
  target_link_libraries(${name} PRIVATE rubato_warnings fmt::fmt)
  target_precompile_headers(${name} PRIVATE <algorithm> <array> <chrono> <cstddef> <cstdint>
    <cstring> <filesystem> <fstream> <functional> <map> <memory> <numeric> <optional> <set> <span>
    <string> <string_view> <thread> <unordered_map> <variant> <vector> <fmt/format.h>
    <tl/expected.hpp> ${ARGN})
endfunction()
rubato_headers(rubato_common_headers)

# rubato_library(NAME SOURCES a.cpp b.cpp LINKS x y [ALONE c.cpp]): static library rubato::NAME.
# ALONE: sources that are compiled by themselves, since tests put other versions of them before these.
function(rubato_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;ALONE" ${ARGN})
  add_library(rubato_${name} STATIC ${ARG_SOURCES})
  add_library(rubato::${name} ALIAS rubato_${name})
  # Warnings and the root of the tree are for builds here, not for programs that embed the library.
  target_link_libraries(rubato_${name} PUBLIC $<BUILD_INTERFACE:rubato_warnings> ${ARG_LINKS})
  target_include_directories(rubato_${name} INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rubato>)
  set_target_properties(rubato_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(rubato_${name} PUBLIC cxx_std_20)
  rubato_unity(rubato_${name} 6 rubato_common_headers)
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# rubato_debian_python(FOUND WHAT MODULES): Debian's Python in DEBIAN_PYTHON3, and FOUND is ON if it can
# load what this build makes and has these modules. Else a line says why WHAT is left out.
function(rubato_debian_python found what modules)
  set(${found} OFF PARENT_SCOPE)
  find_program(DEBIAN_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
  if(NOT DEBIAN_PYTHON3 OR CMAKE_CROSSCOMPILING OR "${CMAKE_CXX_FLAGS}" MATCHES "-fsanitize")
    message(STATUS "${what}: this build is not one for this system's Python")
    return()
  endif()
  execute_process(COMMAND ${DEBIAN_PYTHON3} -c "import ${modules}"
    RESULT_VARIABLE missing OUTPUT_QUIET ERROR_VARIABLE why)
  if(missing)
    string(STRIP "${why}" why)
    string(REGEX REPLACE ".*\n" "" why "${why}")
    message(STATUS "${what}: ${why}; ${ARGN}")
    return()
  endif()
  set(${found} ON PARENT_SCOPE)
endfunction()
