// What processes of training loops print, line by line.
#include "emulation/loop_output.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace rubato::emulation::loop_output_tests {
namespace {

constexpr Duration kPatience = Duration::from_seconds(30);

// Keeps lines in place of standard error. They are complete when `output` is gone.
struct Shown {
  std::vector<std::string> lines;
  std::unique_ptr<LoopOutput> output =
      std::make_unique<LoopOutput>([this](const std::string& line) { lines.push_back(line); });

  const std::vector<std::string>& all() {
    output.reset();
    return lines;
  }
};

void print(int end, const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t written = ::write(end, text.data() + at, text.size() - at);
    REQUIRE(written > 0);
    at += static_cast<std::size_t>(written);
  }
}

TEST_CASE("loop output: lines get the name once, whatever pieces they come in") {
  Shown shown;
  auto opened = shown.output->open("pi-0");
  REQUIRE(opened.has_value());
  for (const char* piece : {"on", "e\ntwo\n\nth", "ree", "\n", "without an end"})
    print(opened->end, piece);
  ::close(opened->end);
  CHECK(shown.output->settle(*opened->stream, kPatience) == "without an end");
  CHECK(shown.all() == std::vector<std::string>{"pi-0: one", "pi-0: two", "pi-0: ", "pi-0: three",
                                                "pi-0: without an end"});
}

TEST_CASE("loop output: a bar that returns to the beginning of its line is a line each time") {
  Shown shown;
  auto opened = shown.output->open("a");
  REQUIRE(opened.has_value());
  print(opened->end, "\r10 %\r20 %");
  print(opened->end, "\r\n\r\n30 %\r");
  print(opened->end, "\nover\n");
  ::close(opened->end);
  shown.output->settle(*opened->stream, kPatience);
  CHECK(shown.all() == std::vector<std::string>{"a: 10 %", "a: 20 %", "a: ", "a: 30 %", "a: over"});
}

TEST_CASE("loop output: much, long lines, and one that never ends a line stop nobody") {
  Shown shown;
  auto silent = shown.output->open("silent"), talks = shown.output->open("");
  REQUIRE(silent.has_value());
  REQUIRE(talks.has_value());
  print(silent->end, "no end");
  constexpr std::size_t kMebibyte = 1024 * 1024;
  std::vector<std::string> expected;
  for (int i = 0; i < 20'000; ++i) expected.push_back("line " + std::to_string(i));
  expected.emplace_back(300'000, 'x');
  std::string text;
  for (const auto& line : expected) text += line + "\n";
  print(talks->end, text + std::string(kMebibyte + 2, 'y'));
  ::close(talks->end);
  CHECK(shown.output->settle(*talks->stream, kPatience) == "yy");
  // The other one goes on; what it has printed is not known to be whole.
  CHECK(shown.output->settle(*silent->stream, Duration::from_ms(1)).empty());
  expected.emplace_back(kMebibyte, 'y');
  expected.emplace_back("yy");
  expected.emplace_back("silent: no end");  // at the end of all
  CHECK((shown.all() == expected));
  ::close(silent->end);
}

}  // namespace
}  // namespace rubato::emulation::loop_output_tests
