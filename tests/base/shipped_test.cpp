#include "base/shipped.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/temp_directory.hpp"

namespace rubato {
namespace {

namespace fs = std::filesystem;

TEST_CASE("an installation that was moved finds its own files, before any other") {
  const TempDirectory directory;
  for (const char* place : {"moved/share/rubato", "moved/deploy", "usr/share/rubato"}) {
    fs::create_directories(directory.path(place));
    directory.write(std::string(place) + "/devices.toml", "");
  }
  const fs::path installed = directory.path("usr/share/rubato");
  const auto found = [&](const char* program) {
    return shipped_directory_for(directory.path(program), installed).string();
  };
  CHECK(found("moved/bin/rubato") == directory.path("moved/share/rubato"));
  CHECK(found("moved/build/dev/cli/rubato") == directory.path("moved/deploy"));
  CHECK(found("moved/lib/x86_64-linux-gnu/librubato.so.0") ==
        directory.path("moved/share/rubato"));
  CHECK(found("elsewhere/embeds") == installed.string());
  CHECK(shipped_directory_for(directory.path("elsewhere/embeds"), directory.path("none")).empty());
}

}  // namespace
}  // namespace rubato
