// tests/train/npz.hpp - a .npz file, which is a zip archive of arrays (tests/train/npy.hpp).
#pragma once

#include <zip.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace rubato::train {

// The arrays by name. Ends the program where it cannot be written.
inline void write_npz(const std::string& path,
                      const std::vector<std::pair<std::string, std::string>>& arrays) {
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  if (!archive) std::abort();
  for (const auto& [name, bytes] : arrays)
    zip_file_add(archive, (name + ".npy").c_str(),
                 zip_source_buffer(archive, bytes.data(), bytes.size(), 0), 0);
  if (zip_close(archive) != 0) std::abort();
}

}  // namespace rubato::train
