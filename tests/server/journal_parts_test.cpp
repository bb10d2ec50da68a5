// The memory of a journal's additions, and that what waits for a disk has a bound.
#include "server/journal_parts.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/temp_directory.hpp"

namespace rubato::server::parts {
namespace {

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

TEST_CASE("log buffer: whole blocks of head, log and zeros, with a checksum of all but the head") {
  LogBuffer buffer;
  const std::byte* memory = nullptr;
  for (const std::size_t count : {20000, 0, 1, 4072, 4073, 9000}) {
    CAPTURE(count);
    const auto bytes = some_bytes(count);
    CHECK(buffer.empty());
    for (std::size_t at = 0; at < count; at += 300) {
      const auto piece = std::span(bytes).subspan(at, std::min<std::size_t>(300, count - at));
      const auto copy = buffer.add(piece);
      CHECK(std::ranges::equal(copy, piece));
    }
    CHECK(std::ranges::equal(buffer.log(), bytes));
    const std::uint64_t sum = buffer.seal();
    std::array<std::byte, LogBuffer::kHeadBytes> head{};
    head.fill(std::byte{9});
    const auto blocks = buffer.blocks(head);
    CHECK(reinterpret_cast<std::uintptr_t>(blocks.data()) % LogBuffer::kBlockBytes == 0);
    CHECK(blocks.size() % LogBuffer::kBlockBytes == 0);
    CHECK(blocks.size() - head.size() - count < LogBuffer::kBlockBytes);
    CHECK(std::ranges::equal(blocks.first(head.size()), head));
    CHECK(std::ranges::equal(blocks.subspan(head.size(), count), bytes));
    CHECK(std::ranges::all_of(blocks.subspan(head.size() + count),
                              [](std::byte each) { return each == std::byte{0}; }));
    CHECK(sum == checksum(blocks.subspan(head.size())));
    // The memory of the largest one serves all that follow.
    if (!memory) memory = blocks.data();
    CHECK(blocks.data() == memory);
    buffer.clear();
  }
}

TEST_CASE("log buffer: what is moved leaves an empty one") {
  LogBuffer one;
  one.add(some_bytes(100));
  LogBuffer other = std::move(one);
  CHECK(one.empty());  // NOLINT(bugprone-use-after-move): that is the promise
  CHECK(other.log().size() == 100);
  one = std::move(other);
  CHECK(one.log().size() == 100);
  CHECK(other.empty());  // NOLINT(bugprone-use-after-move)
}

// A pipe that nobody reads yet is a disk that stands still.
TEST_CASE("journal parts: an owner that is much faster than its disk waits for it") {
  const TempDirectory directory;
  const std::string path = directory.path("server-1.0.journal");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  constexpr std::size_t kBytes = 10'000;
  constexpr int kAdditions = 100;
  std::atomic<int> added = 0;
  PartWriter writer({directory.path(), "server-1", 1}, {}, nullptr, {.waiting_bytes = 3 * kBytes});
  writer.begin({.run = 1});
  std::thread owner([&] {
    for (int i = 0; i < kAdditions; ++i) {
      LogBuffer log = writer.spare();
      CHECK(log.empty());
      log.add(some_bytes(kBytes));
      writer.append(std::move(log), 1);
      ++added;
    }
    writer.sync();
  });
  while (added < 4) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  CHECK(added == 4);
  // It moves on, until it is told that a pipe is no disk.
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  std::array<char, 65536> bytes;  // NOLINT: nobody looks at them
  while (writer.synced()) (void)!::read(reader, bytes.data(), bytes.size());
  owner.join();
  CHECK(added == kAdditions);
  ::close(reader);
}

}  // namespace
}  // namespace rubato::server::parts
