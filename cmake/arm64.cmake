# Toolchain for Debian's cross compiler, and an emulator for what is run. RUBATO_ARM64_ROOT in the
# environment: the folder of the libraries for arm64; without it they are installed on this system.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Debian's place for libraries of this processor, which CMake knows for its own one alone.
set(CMAKE_INSTALL_LIBDIR lib/aarch64-linux-gnu CACHE PATH "object code libraries")
if(DEFINED ENV{RUBATO_ARM64_ROOT})
  set(CMAKE_SYSROOT $ENV{RUBATO_ARM64_ROOT})
  list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -L ${CMAKE_SYSROOT})
  set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
  foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
  endforeach()
endif()
