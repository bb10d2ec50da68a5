#include "report/progress.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

using rubato::Duration;
using rubato::Instant;
using rubato::report::Progress;
using rubato::report::WorkerProgress;

namespace {

constexpr Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

std::string text_of(std::FILE* file) {
  std::fflush(file);
  std::rewind(file);
  std::string text;
  for (int c = 0; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  return text;
}

// What `write` writes to a terminal of `columns`.
std::string on_terminal(unsigned short columns, void (*write)(std::FILE*)) {
  int master = -1, slave = -1;
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(openpty(&master, &slave, nullptr, nullptr, &size) == 0);
  std::FILE* stream = fdopen(slave, "w");
  write(stream);
  std::fclose(stream);
  // The kernel hands what was written over in pieces; once the other end is closed and all of it is
  // read, reading fails.
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t count; (count = read(master, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(count));
  close(master);
  return text;
}

// Two updates and one end.
std::string drawn_on_terminal(unsigned short columns) {
  return on_terminal(columns, [](std::FILE* stream) {
    Progress progress(stream, {.run_count = 2}, at(0));
    progress.begin_run("ADSP seed 1", at(0));
    progress.update({.seconds = 10, .loss = 2.0}, at(0.05));  // too soon after the first bar
    progress.update({.seconds = 20, .loss = 1.5}, at(0.2));
    progress.end_run("done", at(0.3));
  });
}

}  // namespace

TEST_CASE("progress: plain lines where there is no terminal, each after twice the time") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    Progress progress(file, {.run_count = 4}, at(0));
    progress.begin_run("BSP seed 1", at(0));
    for (int second = 1; second <= 60; ++second)
      progress.update({.seconds = 10.0 * second, .loss = 1.25}, at(second));
    progress.end_run("10 min 00 s, loss 0.449", at(60));
    // The next run begins with short times again. It may take as long as the first one.
    progress.begin_run("ADSP seed 1", at(60));
    progress.update({.seconds = 50, .loss = 1.5}, at(64));
    progress.update({.seconds = 50, .loss = 1.5}, at(65));
  }
  CHECK(text_of(file) ==
        "[1/4] BSP seed 1: time left unknown, at 50.0 s, loss 1.2500\n"
        "[1/4] BSP seed 1: time left unknown, at 2 min 30 s, loss 1.2500\n"
        "[1/4] BSP seed 1: time left unknown, at 5 min 50 s, loss 1.2500\n"
        "[1/4] BSP seed 1: 10 min 00 s, loss 0.449\n"
        "[2/4] ADSP seed 1: about 3 min left, at 50.0 s, loss 1.5000\n");
  std::fclose(file);
}

TEST_CASE("progress: an hour without a terminal is a dozen lines") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  Progress progress(file, {}, at(0));
  progress.begin_run("ADSP", at(0));
  for (int second = 1; second <= 3600; ++second)
    progress.update({.seconds = 1.0 * second}, at(second));
  const std::string text = text_of(file);
  CHECK(std::ranges::count(text, '\n') > 10);
  CHECK(std::ranges::count(text, '\n') < 20);
  std::fclose(file);
}

TEST_CASE("progress: the time left of virtual runs is theirs at the pace of the clock") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    Progress progress(file, {.run_count = 3}, at(0));
    progress.begin_run("BSP", at(0));
    // 300 s of the run in 5 s of the clock; 1,200 more take 20 s, and the two runs to come 25 s
    // each.
    progress.update({.seconds = 300, .loss = 0.8, .left = 1200}, at(5));
    progress.end_run("done", at(10));
    progress.begin_run("ASP", at(10));
    // Five seconds are left of it, and ten of the last one.
    progress.update({.seconds = 300, .loss = 0.8, .left = 300}, at(15));
    // Longer than the one before: nobody can tell.
    progress.update({.seconds = 900, .loss = 0.8}, at(25));
  }
  CHECK(text_of(file) ==
        "[1/3] BSP: about 2 min left, at 5 min 00 s, loss 0.8000\n"
        "[1/3] BSP: done\n"
        "[2/3] ASP: about 15 s left, at 5 min 00 s, loss 0.8000\n"
        "[2/3] ASP: time left unknown, at 15 min 00 s, loss 0.8000\n");
  std::fclose(file);
}

TEST_CASE("progress: accuracy, targets, steps and members of a cluster that trains") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  Progress progress(file,
                    {.run_count = 1,
                     .target_loss = 0.5,
                     .target_accuracy = 0.9,
                     .max_steps = 1000,
                     .real_time = true},
                    at(0));
  progress.begin_run("ADSP", at(0));
  progress.update({.seconds = 5, .steps = 50, .left = 95, .members = "2 of 3 workers"}, at(5));
  progress.update(
      {.seconds = 15, .loss = 0.75, .accuracy = 0.8, .steps = 200, .members = "3 of 3 workers"},
      at(15));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  progress.update({.seconds = 35, .loss = 0.75, .accuracy = nan, .steps = 400, .left = 31}, at(35));
  CHECK(text_of(file) ==
        "[1/1] ADSP: about 2 min left, at 5.00 s, 2 of 3 workers\n"
        "[1/1] ADSP: time left unknown, at 15.0 s, loss 0.7500 (target 0.5000), accuracy 80.0 % "
        "(target 90.0 %), 3 of 3 workers\n"
        "[1/1] ADSP: about 35 s left, at 35.0 s, loss 0.7500 (target 0.5000)\n");
  std::fclose(file);
}

TEST_CASE("progress: a worker's steps, rate, commits and loss, ever more rarely") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  WorkerProgress progress(file, "pi-0");
  progress.update(0, 0, 0, at(1));
  for (int second = 10; second <= 41; ++second) {
    const auto steps = static_cast<std::uint64_t>(100 * (second - 10) + 1);
    progress.update(steps, steps / 50, second % 2 == 0 ? 0.5 : 0, at(second));
  }
  progress.update(4, 1, 2.5, at(90));  // it joined anew
  CHECK(text_of(file) ==
        "pi-0: 1,001 steps, 100 a second, 20 commits, loss 0.5000\n"
        "pi-0: 3,001 steps, 100 a second, 60 commits, loss 0.5000\n"
        "pi-0: 4 steps, 100 a second, 1 commit, loss 2.5000\n");
  std::fclose(file);
}

TEST_CASE("progress: a bar on a terminal, redrawn in place and gone at the end") {
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  CHECK(drawn_on_terminal(100) ==
        "\r[\x1b[36m----------------\x1b[0m]   0 % 1/2 ADSP seed 1: time left unknown, at 0.00 "
        "s\x1b[K"
        "\r[\x1b[36m----------------\x1b[0m]   0 % 1/2 ADSP seed 1: time left unknown, at 20.0 s, "
        "loss 1.5000\x1b[K"
        "\r\x1b[K[1/2] ADSP seed 1: done\r\n");
}

TEST_CASE("progress: the bar of a real run shows its own time left, and does not go back") {
  setenv("TERM", "xterm", 1);
  const std::string text = on_terminal(200, [](std::FILE* stream) {
    Progress progress(stream, {.max_seconds = 1000, .real_time = true}, at(0));
    progress.begin_run("ADSP", at(500));  // it waited for workers
    progress.update({.seconds = 10, .loss = 2.0}, at(510));
    progress.update({.seconds = 500, .loss = 2.0, .left = 500.0 / 3}, at(1000));
    progress.update({.seconds = 510, .loss = 2.0}, at(1010));
  });
  CHECK(text.find("  1 % 1/1 ADSP: time left unknown, at 10.0 s, loss 2.0000\x1b[K") !=
        std::string::npos);
  CHECK(text.find(" 75 % 1/1 ADSP: about 3 min left, at 8 min 20 s, loss 2.0000\x1b[K") !=
        std::string::npos);
  CHECK(text.find(" 75 % 1/1 ADSP: time left unknown, at 8 min 30 s") != std::string::npos);
}

TEST_CASE("progress: a worker on a terminal has one line, drawn over itself and gone at the end") {
  setenv("TERM", "xterm", 1);
  const auto write = [](std::FILE* stream) {
    WorkerProgress progress(stream, "pi-0");
    progress.update(1, 0, 0.5, at(0));
    progress.update(2, 0, 0.5, at(0.15));
    progress.update(3, 0, 0.5, at(0.2));  // too soon
    progress.update(41, 2, 0.25, at(5));
  };
  CHECK(on_terminal(80, write) ==
        "\rpi-0: 2 steps, 0 commits, loss 0.5000\x1b[K"
        "\rpi-0: 41 steps, 8 a second, 2 commits, loss 0.2500\x1b[K"
        "\r\x1b[K");
  CHECK(on_terminal(20, write).starts_with("\rpi-0: 2 steps, 0 co\x1b[K"));
}

TEST_CASE("progress: a narrow terminal cuts the line, NO_COLOR the colour, TERM=dumb the bar") {
  setenv("TERM", "xterm", 1);
  setenv("NO_COLOR", "1", 1);
  CHECK(drawn_on_terminal(31) ==
        "\r[-----]   0 % 1/2 ADSP seed 1:\x1b[K"
        "\r[-----]   0 % 1/2 ADSP seed 1:\x1b[K"
        "\r\x1b[K[1/2] ADSP seed 1: done\r\n");
  setenv("TERM", "dumb", 1);
  CHECK(drawn_on_terminal(31) == "[1/2] ADSP seed 1: done\r\n");
  unsetenv("NO_COLOR");
}
