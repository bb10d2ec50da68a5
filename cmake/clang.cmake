# Toolchain: the clang that parses our C++20 here, 16 of Debian 12 or 19 of Debian 13.
find_program(CMAKE_CXX_COMPILER NAMES clang++-16 clang++-19 REQUIRED)
