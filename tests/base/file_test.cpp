#include "base/file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

TEST_CASE("a file is read whole, bytes as they are") {
  const auto path = std::filesystem::temp_directory_path() / "rubato_file_test.bin";
  const std::string bytes("a\0b\r\n\xff", 6);
  std::ofstream(path, std::ios::binary) << bytes;
  const auto read = rubato::read_file(path.string());
  std::filesystem::remove(path);
  REQUIRE(read.has_value());
  CHECK(*read == bytes);
}

TEST_CASE("a missing file and a directory are named, with the reason") {
  const auto missing = rubato::read_file("/nowhere/at/all");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == rubato::ErrorCode::Io);
  CHECK(missing.error().message == "/nowhere/at/all: No such file or directory");
  const auto directory = rubato::read_file("/");
  REQUIRE_FALSE(directory.has_value());
  CHECK(directory.error().message == "/: Is a directory");
}
