#include "worker/credit_choice.hpp"

#include <doctest/doctest.h>

#include <functional>

namespace rubato::worker {
namespace {

using Blocked = std::function<double(std::uint32_t credit)>;

// The credit in use after `commits` that block for as long as `blocked` says.
std::uint32_t after(CreditChoice& choice, int commits, const Blocked& blocked) {
  for (int i = 0; i < commits; ++i)
    choice.on_commit(Duration::from_seconds(blocked(choice.credit())));
  return choice.credit();
}

// Commits among `commits` that went with another credit than `best`.
int others(CreditChoice& choice, int commits, std::uint32_t best, const Blocked& blocked) {
  int count = 0;
  for (int i = 0; i < commits; ++i) {
    if (choice.credit() != best) ++count;
    choice.on_commit(Duration::from_seconds(blocked(choice.credit())));
  }
  return count;
}

TEST_CASE("credit: nothing to choose for one shard") {
  CreditChoice choice(4, 4);
  for (int i = 0; i < 100; ++i) {
    CHECK(choice.credit() == 4);
    CHECK_FALSE(choice.on_commit(Duration::from_seconds(i)));
  }
}

TEST_CASE("credit: goes down to the least where that blocks least, and says so") {
  CreditChoice choice(4, 20);
  const Blocked fewer = [](std::uint32_t credit) { return 1.0 + credit; };
  CHECK(choice.credit() == 20);
  std::string lines;
  for (int i = 0; i < 30; ++i)
    if (const auto line = choice.on_commit(Duration::from_seconds(fewer(choice.credit()))))
      lines += *line + "\n";
  CHECK(choice.credit() == 4);
  CHECK(lines ==
        "credit 10 chunks: a commit blocks for 11 s, with 20 for 21 s\n"
        "credit 5 chunks: a commit blocks for 6 s, with 10 for 11 s\n"
        "credit 4 chunks: a commit blocks for 5 s, with 5 for 6 s\n");
}

TEST_CASE("credit: stays at the most where that is best, and tries ever more rarely") {
  CreditChoice choice(4, 16);
  const Blocked more = [](std::uint32_t credit) { return 20.0 / credit; };
  const int first = others(choice, 100, 16, more);
  const int later = others(choice, 1000, 16, more);
  CHECK(first >= 3);
  CHECK(first <= 4);  // far worse: one commit each
  CHECK(later >= 1);
  CHECK(later <= 6);
}

TEST_CASE("credit: finds what is best in between, and goes where the links change") {
  CreditChoice choice(4, 64);
  const Blocked between = [](std::uint32_t credit) { return credit == 16 ? 1.0 : 1.1; };
  const Blocked slope = [](std::uint32_t credit) { return 64.0 / credit; };
  for (int i = 0; i < 3; ++i) choice.on_commit(Duration::from_seconds(3));
  for (int i = 0; i < 3; ++i) choice.on_commit(Duration::from_seconds(2));
  CHECK(others(choice, 600, 16, between) <= 40);
  CHECK(after(choice, 3, between) == 16);
  others(choice, 1200, 64, slope);
  CHECK(others(choice, 200, 64, slope) <= 10);
}

}  // namespace
}  // namespace rubato::worker
