// server/file_storage.hpp - a Storage in a directory: two files, written alternately in turns of
// the disk (base/disk.hpp), on a thread of their own. docs/operations/recovery.md tells what they
// are for. A snapshot is written beside its place, synced and renamed, so a reader sees a whole
// file or the one before. XXH3 over everything finds any flipped bit. Memory: chunks that change
// while they are written are copied once. Threads: one owner; the writing thread has only what it
// was given. Errors: see Storage.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/disk.hpp"
#include "base/result.hpp"
#include "server/storage.hpp"

namespace rubato::server {

struct FileStorageOptions {
  std::string directory;  // made when missing
  std::string server;     // its name in the cluster; the files are <server>.0.snapshot and .1, and
                          // <server>.lock.
  std::uint64_t cluster = 0;
  bool journal = false;  // keeps one (server/journal_parts.hpp)
  std::function<void()> wake =
      {};                       // called on another thread when more of it is on disk; may be empty
  Disk* disk = &system_disk();  // lifetime: longer than the storage's
};

// BadInput for a name that cannot name a file, a directory that cannot be made, or another process
// that has the server's files. Io where a later try may do better.
[[nodiscard]] Result<std::unique_ptr<Storage>> open_storage(const FileStorageOptions& options);

}  // namespace rubato::server
