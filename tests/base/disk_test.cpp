#include "base/disk.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <thread>

#include "base/file.hpp"
#include "tests/base/disk_suite.hpp"
#include "tests/temp_directory.hpp"

namespace rubato {

TEST_CASE("disk: the system's keeps the promises of a disk") {
  const TempDirectory directory;
  check_disk(system_disk(), system_disk(), directory.path("a/b"), [](const auto& holds) {
    while (!holds()) std::this_thread::yield();
  });
}

TEST_CASE("disk: what no later try can open is told apart from what one may") {
  const auto code = [](const std::string& path) {
    const auto file = system_disk().open(path, Disk::Open::Append);
    REQUIRE_FALSE(file);
    return file.error().code;
  };
  CHECK(code("/dev/null/file") == ErrorCode::BadInput);
  CHECK(code("/no/such/directory/file") == ErrorCode::BadInput);
  const TempDirectory directory;
  CHECK(code(directory.path()) == ErrorCode::BadInput);
}

TEST_CASE("disk: a directory that cannot be made is named") {
  const TempDirectory directory;
  directory.write("file", "x");
  CHECK(sync_directory(directory.path()));
  CHECK_FALSE(sync_directory(directory.path("none")));
  const auto made = make_directories(directory.path("file/a"));
  REQUIRE_FALSE(made);
  CHECK(made.error().message.find(directory.path("file")) != std::string::npos);
  CHECK(make_directories(directory.path("a/b/")));
  CHECK(std::filesystem::is_directory(directory.path("a/b")));
}

}  // namespace rubato
