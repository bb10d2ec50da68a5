// scheduler/journal_file.hpp - the file of a scheduler's journal (scheduler/scheduler_journal.hpp):
// read at the start, appended to from then on. A record survives the end of this process at once,
// and the end of the machine after sync(), or once the system has written it. One process has it at
// a time. Threads: one owner. Errors: one line that names the file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rubato::scheduler {

class JournalFile {
 public:
  // Opens or makes it, with its directory, and locks it until this object or the process ends.
  // BadInput where it cannot be written, or another process has it.
  [[nodiscard]] static Result<JournalFile> open(const std::string& path);
  JournalFile(JournalFile&& other) noexcept;
  JournalFile& operator=(JournalFile&&) = delete;
  ~JournalFile();

  const std::string& path() const { return path_; }
  [[nodiscard]] Result<std::string> read() const;
  // Only the first `size` bytes stay.
  [[nodiscard]] Result<void> cut(std::size_t size);
  // Only `bytes` stay. After a crash the file has them, or what it had. Io.
  [[nodiscard]] Result<void> replace(std::string_view bytes);
  // All or nothing. Io.
  [[nodiscard]] Result<void> append(std::string_view bytes);
  // What was appended outlasts a loss of power. Io.
  [[nodiscard]] Result<void> sync();
  // There is nothing to go on from.
  void remove();

 private:
  JournalFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::string path_;
  std::size_t size_ = 0;  // since the last cut()
  bool named_ = false;    // its name is on disk, too
};

}  // namespace rubato::scheduler
