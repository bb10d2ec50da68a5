#include "scheduler/journal_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.hpp"

namespace rubato::scheduler {
namespace {

tl::unexpected<Error> error_of(ErrorCode code, const std::string& path) {
  return fail(code, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace

Result<JournalFile> JournalFile::open(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return error_of(ErrorCode::BadInput, path);
  JournalFile file(fd, path);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return error_of(ErrorCode::BadInput, path);
    return fail(ErrorCode::BadInput,
                path +
                    ": another scheduler writes here; wait for its end, or name another "
                    "directory");
  }
  return file;
}

JournalFile::JournalFile(JournalFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), size_(other.size_) {}

JournalFile::~JournalFile() {
  if (fd_ >= 0) close(fd_);
}

Result<std::string> JournalFile::read() const {
  return read_file(path_);
}

Result<void> JournalFile::cut(std::size_t size) {
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) return error_of(ErrorCode::Io, path_);
  size_ = size;
  return {};
}

Result<void> JournalFile::replace(std::string_view bytes) {
  RUBATO_ASSIGN(auto beside, open(path_ + ".new"));
  RUBATO_TRY(beside.cut(0));
  RUBATO_TRY(beside.append(bytes));
  RUBATO_TRY(beside.sync());
  if (std::rename(beside.path_.c_str(), path_.c_str()) != 0) return error_of(ErrorCode::Io, path_);
  std::swap(fd_, beside.fd_);
  size_ = bytes.size();
  named_ = false;
  return sync();
}

Result<void> JournalFile::append(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = write(fd_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      auto why = error_of(ErrorCode::Io, path_);
      if (const auto cleared = cut(size_); !cleared) why.value().message += ", and is not whole";
      return why;
    }
    done += static_cast<std::size_t>(count);
  }
  size_ += done;
  return {};
}

Result<void> JournalFile::sync() {
  if (fdatasync(fd_) != 0) return error_of(ErrorCode::Io, path_);
  if (std::exchange(named_, true)) return {};
  return sync_directory(std::filesystem::path(path_).parent_path());
}

void JournalFile::remove() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace rubato::scheduler
