#include "base/file.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/synced_files.hpp"
#include "tests/temp_directory.hpp"

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

TEST_CASE("a directory is synced, and one that is not there is named with the reason") {
  CHECK(rubato::sync_directory(std::filesystem::temp_directory_path()));
  CHECK(rubato::sync_directory(""));
  const auto missing = rubato::sync_directory("/no/such");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "cannot sync the directory /no/such: No such file or directory");
}

TEST_CASE("a file is on the disk before it takes the place of the old one") {
  const rubato::TempDirectory directory;
  const std::string path = std::filesystem::canonical(directory.path()) / "model";
  rubato::SyncedFiles::take();
  REQUIRE(rubato::write_file(path, "bytes"));
  const auto synced = rubato::SyncedFiles::take();
  REQUIRE(synced.size() == 1);
  CHECK(synced.begin()->starts_with(path + "."));
  CHECK(synced.begin()->ends_with(".tmp"));
}

TEST_CASE("a written file replaces the old one and leaves nothing else") {
  const auto directory = std::filesystem::temp_directory_path() / "rubato_write_file_test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  const auto path = directory / "results.json";
  REQUIRE(rubato::write_file(path, "a longer first text").has_value());
  REQUIRE(rubato::write_file(path, std::string_view("new\0text", 8)).has_value());
  CHECK(rubato::read_file(path.string()).value() == std::string("new\0text", 8));
  const auto entries = std::filesystem::directory_iterator(directory);
  CHECK(std::distance(begin(entries), end(entries)) == 1);

  const auto missing = rubato::write_file(directory / "no" / "file", "text");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == rubato::ErrorCode::Io);
  CHECK(missing.error().message.find((directory / "no" / "file").string()) != std::string::npos);
  // A directory in the way: the rename fails, and the temporary file goes too.
  std::filesystem::create_directory(directory / "taken");
  CHECK_FALSE(rubato::write_file(directory / "taken", "text").has_value());
  const auto after = std::filesystem::directory_iterator(directory);
  CHECK(std::distance(begin(after), end(after)) == 2);
  std::filesystem::remove_all(directory);
}

TEST_CASE("a symbolic link stays one: what it points to is written") {
  const auto directory = std::filesystem::temp_directory_path() / "rubato_write_link_test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  std::filesystem::create_symlink("target", directory / "link");
  REQUIRE(rubato::write_file(directory / "link", "text").has_value());
  CHECK(std::filesystem::is_symlink(directory / "link"));
  CHECK(rubato::read_file((directory / "target").string()).value() == "text");
  std::filesystem::remove_all(directory);
}

TEST_CASE("caches lie where XDG or the home directory says, and nowhere without") {
  const auto with = [](const char* caches, const char* home) {
    const auto set = [](const char* name, const char* value) {
      value ? setenv(name, value, 1) : unsetenv(name);
    };
    const char* const old_caches = getenv("XDG_CACHE_HOME");
    const char* const old_home = getenv("HOME");
    const std::string kept_caches = old_caches ? old_caches : "",
                      kept_home = old_home ? old_home : "";
    set("XDG_CACHE_HOME", caches);
    set("HOME", home);
    std::string directory = rubato::cache_directory();
    set("XDG_CACHE_HOME", old_caches ? kept_caches.c_str() : nullptr);
    set("HOME", old_home ? kept_home.c_str() : nullptr);
    return directory;
  };
  CHECK(with("/caches", "/home/me") == "/caches/rubato");
  CHECK(with(nullptr, "/home/me") == "/home/me/.cache/rubato");
  CHECK(with("", "/home/me") == "/home/me/.cache/rubato");
  CHECK(with("caches", "/home/me") == "/home/me/.cache/rubato");  // not absolute: not valid
  CHECK(with(nullptr, nullptr).empty());
  CHECK(with("", "").empty());
}
