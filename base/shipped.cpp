#include "base/shipped.hpp"

#include <dlfcn.h>

#include <string>
#include <system_error>
#include <vector>

namespace rubato {

namespace fs = std::filesystem;

fs::path shipped_directory_for(const fs::path& program, const fs::path& installed) {
  // Of bin/rubato, and of lib/x86_64-linux-gnu/librubato.so.
  const fs::path above = program.parent_path().parent_path();
  std::vector<fs::path> candidates;
  for (const fs::path& prefix : {above, above.parent_path()})
    candidates.push_back(prefix / "share" / "rubato");
  for (fs::path p = program.parent_path(); !p.empty(); p = p.parent_path()) {
    candidates.push_back(p / "deploy");
    if (p == p.parent_path()) break;
  }
  candidates.push_back(installed);
  std::error_code ignored;
  for (const fs::path& candidate : candidates)
    if (fs::is_regular_file(candidate / "devices.toml", ignored)) return candidate;
  return {};
}

namespace {

// The shared library that this function is in, or the program.
fs::path own_file() {
  std::error_code ignored;
  Dl_info found{};
  if (::dladdr(reinterpret_cast<void*>(&own_file), &found) != 0 && found.dli_fname) {
    const fs::path file = fs::canonical(found.dli_fname, ignored);
    if (file.filename().string().find(".so") != std::string::npos) return file;
  }
  return fs::read_symlink("/proc/self/exe", ignored);
}

}  // namespace

fs::path shipped_directory() {
  std::error_code ignored;
  const fs::path found = shipped_directory_for(own_file(), RUBATO_SHIPPED_DIRECTORY);
  if (found.empty()) return "deploy";
  const fs::path here = fs::current_path(ignored);
  const fs::path below = found.lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? found : below;
}

}  // namespace rubato
