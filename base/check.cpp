#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace rubato {

void check_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "rubato: bug: %s (%s) at %s:%d\n", why, condition, file, line);
  std::abort();
}

}  // namespace rubato
