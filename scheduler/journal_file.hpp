// scheduler/journal_file.hpp - the file of a scheduler's journal (scheduler/scheduler_journal.hpp):
// read at the start, appended to from then on. A record survives the end of this process at once,
// and the end of the machine after sync(), or once the system has written it. One process has it at
// a time. Threads: one owner. Errors: one line that names the file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/disk.hpp"
#include "base/result.hpp"

namespace rubato::scheduler {

class JournalFile {
 public:
  // Opens or makes it, with its directory, and locks it until this object or the process ends.
  // BadInput where it cannot be written, or another process has it. Io where a later try may do
  // better. Lifetime of `disk`: longer than this object's.
  [[nodiscard]] static Result<JournalFile> open(const std::string& path,
                                                Disk& disk = system_disk());

  const std::string& path() const { return path_; }
  // What is there. It outlasts a loss of power from now on: an earlier process may have left it in
  // the system's cache. Io.
  [[nodiscard]] Result<std::string> read();
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
  JournalFile(Disk& disk, std::unique_ptr<DiskFile> file, std::string path)
      : disk_(&disk), file_(std::move(file)), path_(std::move(path)) {}

  Disk* disk_;
  std::unique_ptr<DiskFile> file_;
  std::string path_;
  std::size_t size_ = 0;  // since the last cut()
  bool named_ = false;    // its name is on disk, too
};

}  // namespace rubato::scheduler
