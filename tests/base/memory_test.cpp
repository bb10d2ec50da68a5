#include "base/memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace rubato;

TEST_CASE("asking for large pages leaves what lies there as it is, wherever it begins and ends") {
  std::vector<unsigned char> bytes(9'000'001);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 31);
  const std::vector<unsigned char> before = bytes;
  prefer_large_pages(bytes.data(), 0);
  prefer_large_pages(bytes.data() + 1, 100);
  prefer_large_pages(bytes.data(), bytes.size());
  prefer_large_pages(bytes.data() + 12345, bytes.size() - 12345);
  CHECK(bytes == before);
  std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(7));
  CHECK(std::count(bytes.begin(), bytes.end(), 7) == std::ssize(bytes));
}
