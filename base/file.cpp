#include "base/file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
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

Result<void> write_file(const std::filesystem::path& path, std::string_view text) {
  const std::string final_name = path.string();
  // A pipe, a device, or a link such as /dev/stdout stays what it is: it is written through.
  std::error_code none;
  const auto kind = std::filesystem::symlink_status(path, none).type();
  const bool through = kind != std::filesystem::file_type::not_found &&
                       kind != std::filesystem::file_type::regular &&
                       kind != std::filesystem::file_type::directory;
  const std::string temporary =
      through ? final_name : fmt::format("{}.{}.tmp", final_name, getpid());
  const auto io_error = [&] {
    const std::string reason = std::strerror(errno);
    if (!through) std::remove(temporary.c_str());
    return fail(ErrorCode::Io, fmt::format("cannot write {}: {}", final_name, reason));
  };

  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return io_error();
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;  // also flushes what fwrite still buffers
  if (!written || !closed) return io_error();
  if (!through && std::rename(temporary.c_str(), final_name.c_str()) != 0) return io_error();
  return {};
}

std::string cache_directory() {
  const auto absolute = [](const char* name) {  // others are not to be used, says XDG
    const char* value = std::getenv(name);
    return std::filesystem::path(value && *value == '/' ? value : "");
  };
  if (const auto caches = absolute("XDG_CACHE_HOME"); !caches.empty()) return caches / "rubato";
  if (const auto home = absolute("HOME"); !home.empty()) return home / ".cache" / "rubato";
  return "";
}

}  // namespace rubato
