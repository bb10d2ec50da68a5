// base/check.hpp - RUBATO_CHECK: a broken invariant is a bug and ends the process, in every build.
// Never reachable by bytes from the network, a file or the command line: those return a Result.
#pragma once

namespace rubato {

[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace rubato

#define RUBATO_CHECK(condition, why)                               \
  do {                                                             \
    if (!(condition)) [[unlikely]]                                 \
      ::rubato::check_failed(#condition, why, __FILE__, __LINE__); \
  } while (false)
