# Debian packages of the components of cmake/install.cmake. deploy/package.sh makes them, with
# the preset `package`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "Rubato")
set(CPACK_PACKAGE_CONTACT "Rubato maintainers <maintainers@rubato.invalid>" CACHE STRING
  "Who answers for the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# A package is of the release that it was made on. Those of Debian 12 do not say so in their version;
# those of 13 do, which is also the higher version: so a box that is upgraded gets it.
cmake_host_system_information(RESULT system QUERY DISTRIB_ID)
cmake_host_system_information(RESULT release QUERY DISTRIB_VERSION_ID)
string(REGEX REPLACE "^debian" "deb" system "${system}${release}")
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION})
if(NOT system STREQUAL deb12)
  string(APPEND CPACK_DEBIAN_PACKAGE_VERSION "+${system}")
endif()
set(CPACK_SET_DESTDIR ON)  # some files go to /etc
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL rubato librubato0 python3-rubato rubato-dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()

set(CPACK_DEBIAN_RUBATO_PACKAGE_NAME rubato)
set(CPACK_DEBIAN_RUBATO_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUBATO_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUBATO_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_RUBATO_PACKAGE_RECOMMENDS "dataset-fashion-mnist")
set(CPACK_DEBIAN_RUBATO_PACKAGE_SUGGESTS "bash-completion, iproute2, python3, python3-rubato")
set(CPACK_DEBIAN_RUBATO_DESCRIPTION "parameter server for unequal machines
Many machines of different speed train one model together, each on its own
data. Synchronous training waits for the slowest machine; asynchronous sync
models such as ADSP let nobody wait.

The command compares sync models on virtual time, trains on real machines,
and runs as services: scheduler, server and workers.")
set(debian ${PROJECT_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_RUBATO_PACKAGE_CONTROL_EXTRA
  "${debian}/conffiles;${debian}/postinst;${debian}/prerm;${debian}/postrm")

set(CPACK_DEBIAN_LIBRUBATO0_PACKAGE_NAME librubato0)
set(CPACK_DEBIAN_LIBRUBATO0_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRUBATO0_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # of all packages, and this one has a library
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_LIBRUBATO0_PACKAGE_CONTROL_EXTRA "${debian}/librubato0/triggers")
install(FILES ${debian}/librubato0/lintian-overrides
  DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME librubato0 COMPONENT librubato0)
set(CPACK_DEBIAN_LIBRUBATO0_DESCRIPTION "parameter server for unequal machines (C library)
A training loop of your own joins a cluster of Rubato as a worker: it calls
this library after each mini-batch, and does what it is told. The library
computes nothing itself.")

set(CPACK_DEBIAN_PYTHON3-RUBATO_PACKAGE_NAME python3-rubato)
set(CPACK_DEBIAN_PYTHON3-RUBATO_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3-RUBATO_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON3-RUBATO_PACKAGE_DEPENDS
  "python3 (>= 3.9), librubato0 (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PYTHON3-RUBATO_PACKAGE_CONTROL_EXTRA
  "${debian}/python3-rubato/postinst;${debian}/python3-rubato/prerm")
set(CPACK_DEBIAN_PYTHON3-RUBATO_PACKAGE_RECOMMENDS "rubato")
set(CPACK_DEBIAN_PYTHON3-RUBATO_PACKAGE_SUGGESTS "python3-torch, python3-numpy")
set(CPACK_DEBIAN_PYTHON3-RUBATO_DESCRIPTION "parameter server for unequal machines (Python)
Three lines join a training loop in PyTorch or NumPy to a cluster of unequal
machines. The same script runs in the virtual cluster of rubato compare, in
rubato up, and on real boxes.")

set(CPACK_DEBIAN_RUBATO-DEV_PACKAGE_NAME rubato-dev)
set(CPACK_DEBIAN_RUBATO-DEV_PACKAGE_SECTION libdevel)
# What cmake/rubato-config.cmake looks for, as in group `build` of deploy/dependencies.txt.
string(JOIN ", " CPACK_DEBIAN_RUBATO-DEV_PACKAGE_DEPENDS
  "rubato (= ${CPACK_DEBIAN_PACKAGE_VERSION})" "librubato0 (= ${CPACK_DEBIAN_PACKAGE_VERSION})"
  cmake g++ pkgconf libfmt-dev libspdlog-dev libexpected-dev libzmq3-dev libflatbuffers-dev
  flatbuffers-compiler libxxhash-dev libopenblas-pthread-dev libdnnl-dev ocl-icd-opencl-dev
  zlib1g-dev libpng-dev libjpeg-dev libwebp-dev libheif-dev libzip-dev
  nlohmann-json3-dev libonnx-dev libprotobuf-dev)
set(CPACK_DEBIAN_RUBATO-DEV_DESCRIPTION "parameter server for unequal machines (C++ libraries)
Headers and static libraries for C++20 programs that embed Rubato: its sync
models, its virtual cluster, or a node of a real one.

CMake finds them with find_package(rubato).")

# Each package has its copyright and changelog.
set(changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz)
add_custom_command(OUTPUT ${changelog}
  COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/deploy/debian/changelog > ${changelog}
  DEPENDS ${PROJECT_SOURCE_DIR}/deploy/debian/changelog)
add_custom_target(changelog ALL DEPENDS ${changelog})
foreach(package rubato librubato0 python3-rubato rubato-dev)
  install(FILES ${changelog} deploy/debian/copyright
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${package})
endforeach()
include(CPack)
