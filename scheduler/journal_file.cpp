#include "scheduler/journal_file.hpp"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

namespace rubato::scheduler {
namespace {

tl::unexpected<Error> error_of(const Error& why, const std::string& path) {
  return fail(why.code, fmt::format("cannot write {}: {}", path, why.message));
}

}  // namespace

Result<JournalFile> JournalFile::open(const std::string& path, Disk& disk) {
  if (const auto made = disk.make_directories(directory_of(path)); !made)
    return error_of(made.error(), path);
  auto file = disk.open(path, Disk::Open::Append);
  if (!file) return error_of(file.error(), path);
  const auto locked = (*file)->lock();
  if (!locked) return error_of(locked.error(), path);
  if (*locked) return JournalFile(disk, std::move(*file), path);
  return fail(ErrorCode::BadInput,
              path +
                  ": another scheduler writes here; wait for its end, or name another "
                  "directory");
}

Result<std::string> JournalFile::read() {
  RUBATO_TRY(sync());
  const auto unread = [&](const Error& why) {
    return fail(ErrorCode::Io, fmt::format("{}: {}", path_, why.message));
  };
  const auto file = disk_->open(path_, Disk::Open::Read);
  const auto size = file ? (*file)->size() : tl::unexpected<Error>(file.error());
  if (!size) return unread(size.error());
  std::string text(*size, '\0');
  const auto count = (*file)->read(std::as_writable_bytes(std::span(text)));
  if (!count) return unread(count.error());
  text.resize(*count);
  return text;
}

Result<void> JournalFile::cut(std::size_t size) {
  if (const auto done = file_->truncate(size); !done) return error_of(done.error(), path_);
  size_ = size;
  return {};
}

Result<void> JournalFile::replace(std::string_view bytes) {
  RUBATO_ASSIGN(auto beside, open(path_ + ".new", *disk_));
  RUBATO_TRY(beside.cut(0));
  RUBATO_TRY(beside.append(bytes));
  RUBATO_TRY(beside.sync());
  if (const auto done = disk_->rename(beside.path_, path_); !done)
    return error_of(done.error(), path_);
  file_ = std::move(beside.file_);
  size_ = bytes.size();
  named_ = false;
  return sync();
}

Result<void> JournalFile::append(std::string_view bytes) {
  const std::array<std::span<const std::byte>, 1> pieces{std::as_bytes(std::span(bytes))};
  if (const auto done = file_->write(pieces); !done) {
    auto why = error_of(done.error(), path_);
    if (const auto cleared = cut(size_); !cleared) why.value().message += ", and is not whole";
    return why;
  }
  size_ += bytes.size();
  return {};
}

Result<void> JournalFile::sync() {
  if (const auto done = file_->sync(); !done) return error_of(done.error(), path_);
  if (!named_) RUBATO_TRY(disk_->sync_directory(directory_of(path_)));
  named_ = true;
  return {};
}

void JournalFile::remove() {
  (void)disk_->remove(path_);
}

}  // namespace rubato::scheduler
