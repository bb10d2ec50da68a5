// base/file.hpp - a whole file into memory.
// Errors: Io, one line: the path and the system's reason.
#pragma once

#include <string>

#include "base/result.hpp"

namespace rubato {

[[nodiscard]] Result<std::string> read_file(const std::string& path);

}  // namespace rubato
