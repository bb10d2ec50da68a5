#include "base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

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

namespace {

// The file that a symbolic link names in the end, which may not be there yet. Nothing for a link of
// the system, such as /dev/stdout: a file renamed over its target would not be what it names.
std::optional<std::filesystem::path> followed(std::filesystem::path path) {
  constexpr int kLinksMax = 40;  // as the kernel has it
  std::error_code none;
  for (int links = 0; std::filesystem::is_symlink(path, none); ++links) {
    const std::string name = absolute_path(path.string());
    if (links == kLinksMax || name.starts_with("/dev/") || name.starts_with("/proc/"))
      return std::nullopt;
    path = path.parent_path() / std::filesystem::read_symlink(path, none);
  }
  return path;
}

}  // namespace

bool is_written_through(const std::filesystem::path& path) {
  std::error_code none;
  const auto kind = std::filesystem::status(path, none).type();
  const bool device = kind != std::filesystem::file_type::not_found &&
                      kind != std::filesystem::file_type::regular &&
                      kind != std::filesystem::file_type::directory;
  return device || !followed(path);
}

Result<WholeFile> WholeFile::open(const std::filesystem::path& path) {
  std::string final_name = path.string();
  if (is_written_through(path)) {
    // At the end of what is there: standard output may have text already.
    const int opened = ::open(final_name.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    WholeFile through(final_name, final_name, opened < 0 ? nullptr : ::fdopen(opened, "ab"));
    if (through.file_ == nullptr) return through.failed(errno);
    return through;
  }
  std::string place = followed(path)->string();
  std::string temporary = fmt::format("{}.{}.tmp", place, getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  WholeFile opened(std::move(place), std::move(temporary), file);
  if (file == nullptr) return opened.failed(errno);
  return opened;
}

WholeFile::WholeFile(std::string path, std::string temporary, std::FILE* file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

WholeFile::WholeFile(WholeFile&& from) noexcept
    : path_(std::move(from.path_)),
      temporary_(std::move(from.temporary_)),
      file_(std::exchange(from.file_, nullptr)),
      error_(from.error_) {}

WholeFile::~WholeFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (temporary_ != path_) std::remove(temporary_.c_str());
}

void WholeFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() && error_ == 0) error_ = errno;
}

void WholeFile::show() {
  if (std::fflush(file_) != 0 && error_ == 0) error_ = errno;
  if (temporary_ == path_) return;
  if (std::rename(temporary_.c_str(), path_.c_str()) == 0)
    temporary_ = path_;
  else if (error_ == 0)
    error_ = errno;
}

Result<void> WholeFile::finish() {
  const bool through = temporary_ == path_;
  if (std::fflush(file_) != 0 && error_ == 0) error_ = errno;
  // Else a loss of power could leave the new name with none of the bytes.
  if (error_ == 0 && !through && ::fdatasync(::fileno(file_)) != 0 && errno != EINVAL &&
      errno != ENOSYS)  // a file system that knows no sync
    error_ = errno;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!closed && error_ == 0) error_ = errno;
  if (error_ == 0 && !through && std::rename(temporary_.c_str(), path_.c_str()) != 0)
    error_ = errno;
  if (error_ == 0) return {};
  if (!through) std::remove(temporary_.c_str());
  return failed(error_);
}

tl::unexpected<Error> WholeFile::failed(int error) const {
  return fail(ErrorCode::Io, fmt::format("cannot write {}: {}", path_, std::strerror(error)));
}

Result<void> write_file(const std::filesystem::path& path, std::string_view text) {
  RUBATO_ASSIGN(WholeFile file, WholeFile::open(path));
  file.write(text);
  return file.finish();
}

ErrorCode kind_of(int error) {
  switch (error) {
    case EACCES:
    case EEXIST:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOTDIR:
    case EPERM:
      return ErrorCode::BadInput;
    default:
      return ErrorCode::Io;
  }
}

Result<void> sync_directory(const std::filesystem::path& path) {
  const std::string name = path.empty() ? "." : path.string();
  const int opened = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  const bool synced = opened >= 0 && ::fsync(opened) == 0;
  const int why = errno;
  if (opened >= 0) ::close(opened);
  if (synced) return {};
  return fail(ErrorCode::Io,
              fmt::format("cannot sync the directory {}: {}", name, std::strerror(why)));
}

Result<void> make_directories(const std::filesystem::path& path) {
  const std::filesystem::path whole = absolute_path(path.string());
  const auto parent = (whole.has_filename() ? whole : whole.parent_path()).parent_path();
  std::error_code failed;
  if (std::filesystem::is_directory(whole, failed)) {
    // Whoever may not read the parent did not make this directory there.
    return ::access(parent.c_str(), R_OK) == 0 ? sync_directory(parent) : Result<void>();
  }
  if (parent != whole && !std::filesystem::exists(parent, failed))
    RUBATO_TRY(make_directories(parent));
  std::filesystem::create_directory(whole, failed);
  if (failed)
    return fail(kind_of(failed.value()),
                fmt::format("cannot make {}: {}", path.string(), failed.message()));
  return sync_directory(parent);
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
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
