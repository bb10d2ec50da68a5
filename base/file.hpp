// base/file.hpp - whole files: into memory, and out of it all or nothing; where caches lie.
// Errors: Io, one line: the path and the system's reason.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rubato {

[[nodiscard]] Result<std::string> read_file(const std::string& path);

// A file that is written piece by piece. It lies beside its place first and is renamed at the end,
// so that a reader sees the old file or the new one, also after a loss of power. Where the path is
// a symbolic link, its target is that place.
class WholeFile {
 public:
  [[nodiscard]] static Result<WholeFile> open(const std::filesystem::path& path);
  // Drops what has no end.
  ~WholeFile();
  WholeFile(WholeFile&& from) noexcept;
  WholeFile& operator=(WholeFile&&) = delete;

  // finish() says if it could not be written.
  void write(std::string_view text);
  // Gives it its name now, with what was written so far; what follows is added there.
  void show();
  [[nodiscard]] Result<void> finish();

 private:
  WholeFile(std::string path, std::string temporary, std::FILE* file);
  tl::unexpected<Error> failed(int error) const;

  std::string path_, temporary_;  // one and the same: it is written through
  std::FILE* file_;               // null: finished, or moved from
  int error_ = 0;                 // errno of the first write that failed
};

// Such a file of one piece.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& path, std::string_view text);

// Whether writing leaves the file in its place: a pipe, a device, or a link of the system such as
// /dev/stdout. What is there stays before what is written.
bool is_written_through(const std::filesystem::path& path);

// What was made, renamed or removed in a directory outlasts a loss of power. Empty: the working
// one.
[[nodiscard]] Result<void> sync_directory(const std::filesystem::path& path);

// BadInput for a reason of the system that no later try does away with, such as a path without its
// directory or without permission; else Io, such as a full disk.
ErrorCode kind_of(int error);

// Makes a directory, and those above it that are missing. Their names outlast a loss of power, also
// those that an earlier process made.
[[nodiscard]] Result<void> make_directories(const std::filesystem::path& path);

// From the root, without "." and "..". Nothing has to be there.
std::string absolute_path(const std::string& path);

// Where files of ours lie that may be lost: $XDG_CACHE_HOME/rubato, else $HOME/.cache/rubato. Empty
// without either. Reads the environment.
std::string cache_directory();

}  // namespace rubato
