#include "base/shipped.hpp"

#include <system_error>
#include <vector>

namespace rubato {

namespace fs = std::filesystem;

fs::path shipped_directory_for(const fs::path& program, const fs::path& installed) {
  std::vector<fs::path> candidates = {program.parent_path().parent_path() / "share" / "rubato"};
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

fs::path shipped_directory() {
  std::error_code ignored;
  const fs::path found =
      shipped_directory_for(fs::read_symlink("/proc/self/exe", ignored), RUBATO_SHIPPED_DIRECTORY);
  if (found.empty()) return "deploy";
  const fs::path here = fs::current_path(ignored);
  const fs::path below = found.lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? found : below;
}

}  // namespace rubato
