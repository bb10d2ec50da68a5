// tests/log_of.hpp - what code writes to standard error, its log among it.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace rubato::tests {

template <class Work>
std::string log_of(Work work) {
  struct Redirected {  // work() may throw, as a failed REQUIRE does
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::tmpfile(), std::fclose};
    int kept = ::dup(STDERR_FILENO);
    Redirected() {
      REQUIRE(file != nullptr);
      REQUIRE(kept >= 0);
      std::fflush(stderr);
      REQUIRE(::dup2(::fileno(file.get()), STDERR_FILENO) == STDERR_FILENO);
    }
    ~Redirected() {
      std::fflush(stderr);
      ::dup2(kept, STDERR_FILENO);
      ::close(kept);
    }
  };
  std::string text;
  const Redirected redirected;
  work();
  std::fflush(stderr);
  std::rewind(redirected.file.get());
  std::array<char, 4096> part{};
  while (const auto size = std::fread(part.data(), 1, part.size(), redirected.file.get()))
    text.append(part.data(), size);
  return text;
}

}  // namespace rubato::tests
