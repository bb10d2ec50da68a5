// Every target reads its seeds and its corpus: images, and inputs that have ended the program.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/rng.hpp"
#include "tests/fuzz/targets.hpp"

namespace rubato::fuzz {
namespace {

std::vector<std::string> corpus(const Target& target) {
  auto all = target.seeds();
  const std::string directory = fmt::format("{}/{}", RUBATO_FUZZ_CORPUS, target.name);
  if (!std::filesystem::exists(directory)) return all;
  for (const auto& file : std::filesystem::directory_iterator(directory))
    all.push_back(*read_file(file.path().string()));
  return all;
}

TEST_CASE("fuzz targets take their seeds, and read what has ended the program before") {
  for (const Target& target : targets()) {
    CAPTURE(target.name);
    std::size_t taken = 0;
    for (const std::string& bytes : corpus(target)) taken += target.read(bytes) ? 1 : 0;
    CHECK(taken > 0);
  }
}

TEST_CASE("fuzz targets read cut and changed bytes") {
  Rng rng(1, 2, 3);
  for (const Target& target : targets()) {
    CAPTURE(target.name);
    for (const std::string& bytes : corpus(target)) {
      for (int i = 0; i < 20; ++i) {
        std::string changed = bytes.substr(0, i % 2 == 0 ? rng.below(bytes.size()) : bytes.npos);
        for (auto left = rng.below(6); left > 0 && !changed.empty(); --left)
          changed[rng.below(changed.size())] = static_cast<char>(rng.below(256));
        target.read(changed);
      }
    }
  }
}

}  // namespace
}  // namespace rubato::fuzz
