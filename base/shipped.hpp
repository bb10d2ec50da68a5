// base/shipped.hpp - where the files that come with Rubato lie: device catalog, example clusters,
// studies.
// Errors: none. Threads: any.
#pragma once

#include <filesystem>

namespace rubato {

// The first directory of these that holds the device catalog:
// - share/rubato beside the bin/ of this program, or beside the lib/ of librubato.so: an
//   installation, wherever it was moved;
// - deploy/ above it: a source tree;
// - share/rubato of the prefix that the build was configured with: a program that embeds Rubato.
// Returns: its path, relative where it lies under the working directory; "deploy" if there is none.
std::filesystem::path shipped_directory();

// What shipped_directory() finds for a program at `program`, with `installed` as its last place.
// Returns: an absolute path, empty if there is none. Requires: both are absolute.
std::filesystem::path shipped_directory_for(const std::filesystem::path& program,
                                            const std::filesystem::path& installed);

}  // namespace rubato
