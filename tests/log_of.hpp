// tests/log_of.hpp - what code writes to standard error, its log among it.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace rubato::tests {

template <class Work>
std::string log_of(Work work) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO);
  REQUIRE(::dup2(::fileno(file), STDERR_FILENO) == STDERR_FILENO);
  work();
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  std::rewind(file);
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), file))
    text.append(part.data(), size);
  std::fclose(file);
  return text;
}

}  // namespace rubato::tests
