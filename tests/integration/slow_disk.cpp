// A disk on which each sync takes RUBATO_SYNC_MS longer: loaded before the C library (LD_PRELOAD).
#include <dlfcn.h>

#include <cstdlib>
#include <ctime>

namespace {

int slowly(const char* name, int fd) {
  const char* const ms = std::getenv("RUBATO_SYNC_MS");
  const long wait = ms ? std::atol(ms) : 0;
  const timespec time{wait / 1000, wait % 1000 * 1'000'000};
  nanosleep(&time, nullptr);
  return reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name))(fd);
}

}  // namespace

extern "C" int fsync(int fd) {
  return slowly("fsync", fd);
}

extern "C" int fdatasync(int fd) {
  return slowly("fdatasync", fd);
}
