#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/log.hpp"

namespace rubato::cli {

void keep_standard_streams() {
  // The least free number is taken: 0 to 2, while one of them is closed.
  for (int fd = 0; fd >= 0 && fd <= STDERR_FILENO;) fd = ::open("/dev/null", O_RDONLY);
}

void flush_output() {
  if (std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "standard output");
}

int end_output(int code, int error) {
  const bool failed = std::ferror(stdout) != 0;
  errno = 0;
  const bool closed = std::fclose(stdout) == 0;  // also writes what is still in the buffer
  if (error == 0) error = errno;
  if (closed && !failed) return code;
  write_line(stderr, fmt::format("rubato: cannot write to standard output: {}",
                                 error == 0 ? "a write failed" : std::strerror(error)));
  return code == 0 ? 1 : code;
}

}  // namespace rubato::cli
