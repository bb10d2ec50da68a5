#include "base/file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace rubato {

Result<std::string> read_file(const std::string& path) {
  const auto failed = [&] {
    return fail(ErrorCode::Io, fmt::format("{}: {}", path, std::strerror(errno)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) return failed();
  std::string text;
  char block[1 << 16];
  while (const std::size_t count = std::fread(block, 1, sizeof block, file.get()))
    text.append(block, count);
  if (std::ferror(file.get())) return failed();  // a directory, for one
  return text;
}

}  // namespace rubato
