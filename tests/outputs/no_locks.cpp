// A preloaded library: a file system that has no locks and no links, as some network shares.
#include <cerrno>

extern "C" int flock(int, int) {
  errno = ENOLCK;
  return -1;
}

extern "C" int symlink(const char*, const char*) {
  errno = EPERM;
  return -1;
}
