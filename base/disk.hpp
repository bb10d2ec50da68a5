// base/disk.hpp - the files of a state directory, and the slow work on them. The interface is
// small, so that a simulated disk can take the system's place (tests/simulation/sim_disk.hpp), with
// all that a loss of power may leave. docs/decisions/0022-state-over-a-small-disk.md. What is
// written outlasts the process at once. It outlasts a loss of power after sync(); a name that was
// made, renamed or removed does after sync_directory(). Both hold for what an earlier process
// wrote, too. Errors: Io, or BadInput for a path that no later try can open: the system's reason
// alone. Threads: a file has one owner; a Disk may be used by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rubato {

class DiskFile {
 public:
  // Closes it, and gives up its lock.
  virtual ~DiskFile() = default;

  // Writes all pieces, one behind the other, at the end. After an error a part of them may be
  // there.
  [[nodiscard]] virtual Result<void> write(std::span<const std::span<const std::byte>> pieces) = 0;
  // Reads what follows the bytes that were read before. Returns: how many; fewer than asked for
  // only at the end of the file.
  [[nodiscard]] virtual Result<std::size_t> read(std::span<std::byte> out) = 0;
  [[nodiscard]] virtual Result<std::uint64_t> size() = 0;
  // Only the first `size` bytes stay. Those that follow are written behind them.
  [[nodiscard]] virtual Result<void> truncate(std::uint64_t size) = 0;
  [[nodiscard]] virtual Result<void> sync() = 0;
  // For this process, until the file is closed. Returns: false if another process has it.
  [[nodiscard]] virtual Result<bool> lock() = 0;
};

// Slow work of one owner: it asks, and the work is done elsewhere, one turn after the other.
class Turns {
 public:
  // Ends when all that was asked for is done.
  virtual ~Turns() = default;
  // For any thread.
  virtual void ask() = 0;
};

struct Turn {
  const char* name;  // what is written: "snapshot" or "journal"
  // Finds out what is to be done now. Returns: whether there is something.
  std::function<bool()> take;
  // Does it, which takes its time. Then take() is called again.
  std::function<void()> carry_out;
};

class Disk {
 public:
  virtual ~Disk() = default;

  enum class Open {
    Read,            // what is there
    Create,          // an empty file, in place of what is there
    CreateUncached,  // the same; what is written goes past the system's cache where it lets it
    Append,          // to read it and to write behind its end; made when missing
  };
  [[nodiscard]] virtual Result<std::unique_ptr<DiskFile>> open(const std::string& path,
                                                               Open how) = 0;
  virtual bool exists(const std::string& path) = 0;
  // The names of all files there, sorted; none where there is no such directory.
  virtual std::vector<std::string> list(const std::string& directory) = 0;
  // `to` is replaced.
  [[nodiscard]] virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  [[nodiscard]] virtual Result<void> remove(const std::string& path) = 0;
  [[nodiscard]] virtual Result<void> sync_directory(const std::string& directory) = 0;
  // Its name outlasts a loss of power, also one that is there already.
  [[nodiscard]] virtual Result<void> make_directories(const std::string& directory) = 0;

  virtual std::unique_ptr<Turns> begin_turns(Turn turn) = 0;
};

// The files of this machine. Turns run on a thread for each of them.
Disk& system_disk();

// A file is read from its beginning, in small pieces or large ones.
class DiskReader {
 public:
  explicit DiskReader(DiskFile& file) : file_(file) {}
  // Fills all of `out`. Returns: false if the file ends before, or cannot be read.
  bool read(std::span<std::byte> out);
  // Why it could not be read. Nothing: it ended.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  static constexpr std::size_t kBufferBytes = 64 * 1024;

  bool fill(std::span<std::byte> out);

  DiskFile& file_;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;  // in buffer_
  std::optional<Error> failure_;
};

// The path of a file in a directory; and the directory of a file.
std::string path_in(const std::string& directory, const std::string& name);
std::string directory_of(const std::string& path);

}  // namespace rubato
