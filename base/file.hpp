// base/file.hpp - whole files: into memory, and out of it all or nothing; where caches lie.
// Errors: Io, one line: the path and the system's reason.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rubato {

[[nodiscard]] Result<std::string> read_file(const std::string& path);

// Writes beside `path` first and renames, so that a reader sees the old file or the new one. A
// pipe, a device or a symbolic link is written through instead.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& path, std::string_view text);

// Where files of ours lie that may be lost: $XDG_CACHE_HOME/rubato, else $HOME/.cache/rubato. Empty
// without either. Reads the environment.
std::string cache_directory();

}  // namespace rubato
