#include "tests/fuzz/targets.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/checksum.hpp"

namespace rubato::fuzz {
namespace {

class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rubato-fuzz-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string path(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

std::span<const Target> targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> every;
    for (const auto& area :
         {wire_targets(), core_targets(), data_targets(), model_targets(), text_targets()})
      every.insert(every.end(), area.begin(), area.end());
    return every;
  }();
  return all;
}

const Target* find_target(std::string_view name) {
  const auto all = targets();
  const auto found = std::ranges::find(all, name, &Target::name);
  return found == all.end() ? nullptr : &*found;
}

bool taken(const Result<void>& result) {
  if (result) return true;
  const std::string& line = result.error().message;
  if (line.empty() || line.find('\n') != std::string::npos) {
    fmt::print(stderr, "a refusal that is not one line: \"{}\"\n", line);
    std::abort();
  }
  return false;
}

std::vector<std::byte> checksummed(std::string_view frame) {
  constexpr std::size_t kPrefixBytes = 16;  // docs/protocol.md
  const auto bytes = std::as_bytes(std::span(frame));
  std::vector<std::byte> control(bytes.begin(), bytes.end());
  if (control.size() >= kPrefixBytes) {
    const std::uint64_t sum = checksum(std::span(control).subspan(kPrefixBytes));
    std::memcpy(control.data() + 8, &sum, sizeof sum);
  }
  return control;
}

std::string file_of(std::string_view name, std::string_view bytes) {
  static const Directory directory;
  const std::string path = directory.path(name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace rubato::fuzz
