// A disk on which each sync takes RUBATO_SYNC_MS longer: loaded before the C library (LD_PRELOAD).
#include <dlfcn.h>

#include <cstdlib>

#include "tests/pause.hpp"

namespace {

int slowly(const char* name, int fd) {
  const char* const ms = std::getenv("RUBATO_SYNC_MS");
  rubato::tests::let_pass(rubato::Duration::from_ms(ms ? std::atoi(ms) : 0));
  return reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name))(fd);
}

}  // namespace

extern "C" int fsync(int fd) {
  return slowly("fsync", fd);
}

extern "C" int fdatasync(int fd) {
  return slowly("fdatasync", fd);
}
