#include "nodes/local_runs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.hpp"
#include "base/rng.hpp"

namespace rubato::nodes {
namespace fs = std::filesystem;
namespace {

// Empty where there is no such directory of this user alone, and none can be made.
std::string runtime_directory() {
  const char* const given = std::getenv("XDG_RUNTIME_DIR");
  const bool stated = given != nullptr && *given != '\0';
  std::string path =
      stated ? std::string(given) + "/rubato" : fmt::format("/tmp/rubato-{}", getuid());
  ::mkdir(path.c_str(), 0700);
  struct stat found {};
  // In /tmp another user may have made it first.
  const bool ours = ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
                    found.st_uid == getuid() && (found.st_mode & 0077) == 0;
  return ours ? path : std::string();
}

}  // namespace

LocalRun::LocalRun(const std::string& endpoint, const std::string& directory) {
  const std::string place = runtime_directory();
  if (place.empty()) return;
  path_ = fmt::format("{}/{:016x}", place, os_random());
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0) return;
  const std::string text = fmt::format("{}\n{}\n", endpoint, absolute_path(directory));
  flock(file_, LOCK_EX | LOCK_NB);
  if (::write(file_, text.data(), text.size()) < 0) ::unlink(path_.c_str());
}

LocalRun::~LocalRun() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());
  ::close(file_);
}

std::vector<LocalRunInfo> local_runs() {
  std::vector<LocalRunInfo> runs;
  const std::string place = runtime_directory();
  if (place.empty()) return runs;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(place, failed)) {
    const std::string path = entry.path().string();
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    const bool held = flock(file, LOCK_SH | LOCK_NB) != 0;
    ::close(file);
    const auto text = read_file(path);
    if (!text) continue;
    const auto first = text->find('\n');
    const auto second = first == text->npos ? first : text->find('\n', first + 1);
    if (held && second != text->npos)
      runs.push_back({text->substr(0, first), text->substr(first + 1, second - first - 1)});
    // A file without its text was made a moment ago.
    else if (!held && second != text->npos)
      ::unlink(path.c_str());
  }
  std::ranges::sort(runs, {}, &LocalRunInfo::directory);
  return runs;
}

}  // namespace rubato::nodes
