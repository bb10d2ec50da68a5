// worker/residual_file.hpp - a residual in a file that the host maps. What was written to it
// survives the end of the process, SIGKILL included.
// docs/compression.md tells the file's form and what a crash can cost.
// Threads: one owner. Errors: BadInput or Io, one line that names the file and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "worker/residual.hpp"

namespace rubato::worker {

struct ResidualFile {
  std::string directory;  // made when missing
  std::string worker;     // its name in the cluster; the file is <worker>.residual
  std::uint64_t cluster = 0;
  std::size_t parameters = 0;
};

// Takes over the file of an earlier life of this worker, or makes one, all zeros. The file stays
// mapped and locked while the residual lives: two processes never share it.
[[nodiscard]] Result<Residual> open_residual(const ResidualFile& file);

}  // namespace rubato::worker
