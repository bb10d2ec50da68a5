// cli/write_file.hpp - whole files, all or nothing.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.hpp"

namespace rubato::cli {

// Writes beside `path` first and renames, so that a reader sees the old file or the new one.
// Errors: Io, naming the path and the reason.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace rubato::cli
