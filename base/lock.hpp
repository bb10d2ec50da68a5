// base/lock.hpp - a lock on an open file or directory, which ends with the process.
// Errors: none. Threads: any.
#pragma once

#include <string>

namespace rubato {

// Returns: whether nobody else has it. Where the file system has no locks, as some network shares,
// nobody is found there: the first time a line says so. `path`: for that line.
bool take_lock(int file, const std::string& path);

}  // namespace rubato
