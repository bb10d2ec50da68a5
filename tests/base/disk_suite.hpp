// tests/base/disk_suite.hpp - what each Disk promises (base/disk.hpp), but for a loss of power.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/disk.hpp"

namespace rubato {

inline Result<void> write_text(DiskFile& file, std::string_view text) {
  const std::array<std::span<const std::byte>, 2> halves{
      std::as_bytes(std::span(text)).first(text.size() / 2),
      std::as_bytes(std::span(text)).subspan(text.size() / 2)};
  return file.write(halves);
}

inline std::string text_of(Disk& disk, const std::string& path) {
  const auto file = disk.open(path, Disk::Open::Read);
  REQUIRE(file);
  std::string text((*file)->size().value(), '?');
  DiskReader in(**file);
  REQUIRE(in.read(std::as_writable_bytes(std::span(text))));
  std::byte more{};
  CHECK_FALSE(in.read({&more, 1}));
  CHECK_FALSE(in.failure());
  return text;
}

// `directory`: empty, or not there. `another`: the disk as another process has it. `until`: waits
// until a condition holds.
inline void check_disk(Disk& disk, Disk& another, const std::string& directory,
                       const std::function<void(std::function<bool()>)>& until) {
  using Open = Disk::Open;
  REQUIRE(disk.make_directories(directory));
  REQUIRE(disk.make_directories(directory));
  CHECK(disk.list(directory).empty());
  const std::string a = path_in(directory, "a");
  const std::string b = path_in(directory, "b");
  CHECK(directory_of(a) == directory);
  CHECK_FALSE(disk.exists(a));
  CHECK(disk.open(a, Open::Read).error().code == ErrorCode::BadInput);
  CHECK(disk.open(a, Open::Read).error().message == "No such file or directory");
  {
    const auto file = disk.open(a, Open::Create);
    REQUIRE(file);
    REQUIRE(write_text(**file, "one two "));
    REQUIRE(write_text(**file, ""));
    REQUIRE(write_text(**file, "three"));
    REQUIRE((*file)->sync());
    CHECK((*file)->size() == std::uint64_t{13});
  }
  CHECK(disk.exists(a));
  CHECK(text_of(another, a) == "one two three");
  {  // behind what is there; cut, and behind that
    const auto file = disk.open(a, Open::Append);
    REQUIRE(file);
    std::array<char, 4> begin{};
    CHECK((*file)->read(std::as_writable_bytes(std::span(begin))) == std::size_t{4});
    REQUIRE(write_text(**file, " four"));
    REQUIRE((*file)->truncate(4));
    REQUIRE(write_text(**file, "five"));
    CHECK((*file)->read(std::as_writable_bytes(std::span(begin))) == std::size_t{4});
    CHECK(std::string_view(begin.data(), begin.size()) == "five");
    CHECK((*file)->read(std::as_writable_bytes(std::span(begin))) == std::size_t{0});
  }
  CHECK(text_of(disk, a) == "one five");
  {  // one process at a time has the lock
    const auto file = disk.open(a, Open::Append);
    REQUIRE(file);
    CHECK((*file)->lock() == true);
    const auto other = another.open(a, Open::Append);
    REQUIRE(other);
    CHECK((*other)->lock() == false);
  }
  CHECK((*another.open(a, Open::Append))->lock() == true);
  {  // any size, past the cache or not
    std::string large(3 * 4096 + 17, 'x');
    for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>('a' + i % 23);
    const auto file = disk.open(b, Open::CreateUncached);
    REQUIRE(file);
    REQUIRE(write_text(**file, large));
    REQUIRE((*file)->sync());
    CHECK(text_of(disk, b) == large);
    CHECK(disk.open(b, Open::Create));
    CHECK(text_of(disk, b).empty());
  }
  CHECK(disk.list(directory) == std::vector<std::string>{"a", "b"});
  REQUIRE(disk.rename(a, b));
  CHECK(disk.list(directory) == std::vector<std::string>{"b"});
  CHECK(text_of(disk, b) == "one five");
  CHECK_FALSE(disk.rename(a, b));
  REQUIRE(disk.sync_directory(directory));
  REQUIRE(disk.remove(b));
  CHECK_FALSE(disk.remove(b));
  CHECK(disk.list(directory).empty());

  // Turns: all that was asked for is done, one after the other, at the latest at the end.
  int asked = 0, taken = 0, done = 0;
  bool busy = false;
  Turn turn{"journal",
            [&] {
              CHECK_FALSE(busy);
              if (taken == asked) return false;
              busy = true;
              ++taken;
              return true;
            },
            [&] {
              CHECK(busy);
              busy = false;
              ++done;
            }};
  auto turns = disk.begin_turns(turn);
  turns->ask();  // for nothing
  turns.reset();
  CHECK(done == 0);
  asked = 3;
  turns = disk.begin_turns(turn);
  turns->ask();
  until([&] { return done == 3; });
  turns.reset();
  asked = 5;
  turns = disk.begin_turns(turn);
  turns->ask();
  turns.reset();
  CHECK(done == 5);
}

}  // namespace rubato
