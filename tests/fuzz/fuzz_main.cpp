// libFuzzer's entry: the target that RUBATO_FUZZ names reads what it makes up. tests/fuzz.sh runs
// all of them. With RUBATO_FUZZ_SEEDS its seeds are written into that directory first.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/targets.hpp"

namespace {

const rubato::fuzz::Target* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const name = std::getenv("RUBATO_FUZZ");
  target = name ? rubato::fuzz::find_target(name) : nullptr;
  if (!target) {
    std::string known;
    for (const auto& each : rubato::fuzz::targets()) known += fmt::format(" {}", each.name);
    fmt::print(stderr, "RUBATO_FUZZ names what is tried:{}\n", known);
    std::exit(2);
  }
  const char* const directory = std::getenv("RUBATO_FUZZ_SEEDS");
  if (!directory) return 0;
  int number = 0;
  for (const std::string& seed : target->seeds())
    std::ofstream(fmt::format("{}/seed-{}", directory, number++), std::ios::binary) << seed;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target->read({reinterpret_cast<const char*>(data), size});
  return 0;
}
