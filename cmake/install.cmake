# What `cmake --install` installs, in four components: `rubato`, for those who run it; `librubato0` and
# `python3-rubato`, for training loops of one's own; and `rubato-dev`, for C programs with such a loop
# and C++ programs that embed Rubato. cmake/package.cmake makes a Debian package of each.
include(CMakePackageConfigHelpers)

set(share ${CMAKE_INSTALL_DATADIR}/rubato)

# --- rubato -------------------------------------------------------------------------------------
if(RUBATO_HAS_CUDA)
  # Beside the libraries; the command, and programs that embed Rubato, find it by their run paths.
  set(cuda_module ${CMAKE_INSTALL_LIBDIR}/rubato)
  install(TARGETS rubato_cuda LIBRARY DESTINATION ${cuda_module} COMPONENT rubato)
  set_target_properties(rubato PROPERTIES INSTALL_RPATH "\$ORIGIN/../${cuda_module}")
  target_link_options(rubato_train INTERFACE
    $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${cuda_module}>)
endif()
install(TARGETS rubato RUNTIME COMPONENT rubato)
# As in deploy/, so that the studies find their clusters.
install(FILES deploy/devices.toml DESTINATION ${share} COMPONENT rubato)
install(DIRECTORY deploy/measured DESTINATION ${share} COMPONENT rubato)
install(DIRECTORY deploy/clusters DESTINATION ${share} COMPONENT rubato)
install(DIRECTORY deploy/studies DESTINATION ${share} COMPONENT rubato
  FILES_MATCHING PATTERN *.toml)
install(PROGRAMS deploy/slurm/study.sh DESTINATION ${share}/slurm COMPONENT rubato)
install(FILES deploy/kubernetes/study.yaml DESTINATION ${share}/kubernetes COMPONENT rubato)
install(FILES deploy/grafana/rubato.json DESTINATION ${share}/grafana COMPONENT rubato)
install(FILES examples/boxes/boxes.toml DESTINATION ${share}/examples/boxes COMPONENT rubato)
install(FILES examples/csv/machines.csv examples/csv/new.csv DESTINATION ${share}/examples/csv
  COMPONENT rubato)
install(PROGRAMS examples/boxes/make_data.py DESTINATION ${share}/examples/boxes COMPONENT rubato)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT rubato)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT rubato)
install(FILES deploy/completion/rubato
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT rubato)

# Man pages say what --help says. Without help2man there are none.
find_program(HELP2MAN help2man)
if(HELP2MAN)
  set(man ${CMAKE_CURRENT_BINARY_DIR}/man)
  file(GLOB man_parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/deploy/man/*)
  add_custom_command(OUTPUT ${man}/rubato.1.gz
    COMMAND ${PROJECT_SOURCE_DIR}/deploy/man/generate.sh ${man}
      ${CMAKE_INSTALL_FULL_DATADIR}/rubato ${CMAKE_CROSSCOMPILING_EMULATOR}
      $<TARGET_FILE:rubato>
    DEPENDS rubato ${man_parts}
    VERBATIM)
  add_custom_target(man ALL DEPENDS ${man}/rubato.1.gz)
  install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT rubato)
else()
  message(STATUS "help2man is missing: no man pages")
endif()

# Services: the units name the paths of this installation.
set(RUBATO_BINARY ${CMAKE_INSTALL_FULL_BINDIR}/rubato)
set(RUBATO_CONFIG ${CMAKE_INSTALL_FULL_SYSCONFDIR}/rubato)
set(RUBATO_DOCUMENTS ${CMAKE_INSTALL_FULL_DOCDIR})
foreach(unit scheduler server worker@)
  set(at ${CMAKE_CURRENT_BINARY_DIR}/systemd/rubato-${unit}.service)
  configure_file(deploy/systemd/rubato-${unit}.service.in ${at} @ONLY)
  install(FILES ${at} DESTINATION lib/systemd/system COMPONENT rubato)
endforeach()
install(FILES deploy/systemd/rubato.conf deploy/systemd/cluster.toml
  DESTINATION ${CMAKE_INSTALL_FULL_SYSCONFDIR}/rubato COMPONENT rubato)

# --- librubato0, python3-rubato -----------------------------------------------------------------
install(TARGETS librubato LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT librubato0
  NAMELINK_COMPONENT rubato-dev)
foreach(example dialects keywords lora mlp)
  install(PROGRAMS examples/python/${example}.py DESTINATION ${share}/examples/python
    COMPONENT python3-rubato)
  install(FILES examples/python/${example}.toml DESTINATION ${share}/examples/python
    COMPONENT python3-rubato)
endforeach()
install(FILES examples/python/dialects-study.toml DESTINATION ${share}/examples/python
  COMPONENT python3-rubato)
install(DIRECTORY python/rubato DESTINATION lib/python3/dist-packages COMPONENT python3-rubato
  FILES_MATCHING PATTERN *.py PATTERN py.typed PATTERN __pycache__ EXCLUDE)
install(FILES abi/rubato.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT rubato-dev)
configure_file(deploy/rubato.pc.in ${CMAKE_CURRENT_BINARY_DIR}/rubato.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rubato.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT rubato-dev)
install(DIRECTORY examples/c DESTINATION ${CMAKE_INSTALL_DOCDIR}-dev/examples COMPONENT rubato-dev)

# --- rubato-dev ---------------------------------------------------------------------------------
set(rooms base train sync proto scheduler server worker cluster emulation nodes)
set(libraries ${rooms} model data training throttle joining)
list(TRANSFORM libraries PREPEND rubato_)
install(TARGETS ${libraries} EXPORT rubato ARCHIVE COMPONENT rubato-dev)
install(DIRECTORY ${rooms} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rubato COMPONENT rubato-dev
  FILES_MATCHING PATTERN *.hpp)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/rubato)
install(EXPORT rubato NAMESPACE rubato:: FILE rubato-targets.cmake DESTINATION ${config}
  COMPONENT rubato-dev)
write_basic_package_version_file(rubato-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/rubato-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/rubato-config-version.cmake
  DESTINATION ${config} COMPONENT rubato-dev)
install(DIRECTORY examples/embed DESTINATION ${CMAKE_INSTALL_DOCDIR}-dev/examples
  COMPONENT rubato-dev)
