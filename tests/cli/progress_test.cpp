#include "cli/progress.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <limits>

using rubato::Duration;
using rubato::Instant;
using rubato::cli::Progress;
using rubato::cli::WorkerProgress;

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

TEST_CASE("progress: plain lines where there is no terminal, one every five seconds") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    Progress progress(file, {.run_count = 4, .max_seconds = 100.0}, at(0));
    progress.begin_run("BSP seed 1", at(0));
    progress.update({.seconds = 10, .loss = 0}, at(1));
    progress.update({.seconds = 50, .loss = 1.25}, at(5));
    progress.update({.seconds = 60, .loss = 1.0}, at(6));
    progress.end_run("1 min 40 s, loss 0.449", at(10));
    progress.begin_run("ADSP seed 1", at(10));
    progress.update({.seconds = 50, .loss = 1.25}, at(15));
  }
  CHECK(text_of(file) ==
        "[1/4] BSP seed 1: at 50.0 s, loss 1.2500, 35 s left\n"
        "[1/4] BSP seed 1: 1 min 40 s, loss 0.449\n"
        "[2/4] ADSP seed 1: at 50.0 s, loss 1.2500, 25 s left\n");
  std::fclose(file);
}

TEST_CASE("progress: a target loss tells how far a run is, by 1/loss") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  Progress progress(file, {.run_count = 1, .target_loss = 0.5}, at(0));
  progress.begin_run("BSP", at(0));
  progress.update({.seconds = 0, .loss = 2.0}, at(0));
  progress.update({.seconds = 10, .loss = 0.8},
                  at(10));  // (1/0.8 - 1/2) of (1/0.5 - 1/2): half way
  CHECK(text_of(file) == "[1/1] BSP: at 10.0 s, loss 0.8000 (target 0.5000), 10 s left\n");
  std::fclose(file);
}

TEST_CASE("progress: accuracy, targets, steps and members of a cluster that trains") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  Progress progress(
      file, {.run_count = 1, .target_loss = 0.5, .target_accuracy = 0.9, .max_steps = 1000}, at(0));
  progress.begin_run("ADSP", at(0));
  progress.update({.seconds = 5, .steps = 50, .members = "2 of 3 workers"}, at(5));
  progress.update(
      {.seconds = 10, .loss = 0.75, .accuracy = 0.8, .steps = 200, .members = "3 of 3 workers"},
      at(10));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  progress.update({.seconds = 20, .loss = 0.75, .accuracy = nan, .steps = 400}, at(20));
  CHECK(text_of(file) ==
        "[1/1] ADSP: at 5.00 s, 2 of 3 workers, 95 s left\n"
        "[1/1] ADSP: at 10.0 s, loss 0.7500 (target 0.5000), accuracy 80.0 % (target 90.0 %), "
        "3 of 3 workers, 40 s left\n"
        "[1/1] ADSP: at 20.0 s, loss 0.7500 (target 0.5000), 30 s left\n");
  std::fclose(file);
}

TEST_CASE("progress: a worker's steps, rate, commits and loss, a line every ten seconds") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  WorkerProgress progress(file, "pi-0");
  progress.update(0, 0, 0, at(1));
  for (int second = 10; second <= 31; ++second) {
    const auto steps = static_cast<std::uint64_t>(100 * (second - 10) + 1);
    progress.update(steps, steps / 50, second % 2 == 0 ? 0.5 : 0, at(second));
  }
  progress.update(4, 1, 2.5, at(41));  // it joined anew
  CHECK(text_of(file) ==
        "pi-0: 1,001 steps, 100 a second, 20 commits, loss 0.5000\n"
        "pi-0: 2,001 steps, 100 a second, 40 commits, loss 0.5000\n"
        "pi-0: 4 steps, 100 a second, 1 commits, loss 2.5000\n");
  std::fclose(file);
}

TEST_CASE("progress: a bar on a terminal, redrawn in place and gone at the end") {
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  CHECK(drawn_on_terminal(100) ==
        "\r[\x1b[36m------------------------\x1b[0m]   0 % 0/2 ADSP seed 1: at 0.00 s\x1b[K"
        "\r[\x1b[36m------------------------\x1b[0m]   0 % 0/2 ADSP seed 1: at 20.0 s, "
        "loss 1.5000\x1b[K"
        "\r\x1b[K[1/2] ADSP seed 1: done\r\n");
}

TEST_CASE("progress: the time left of a real run is that which it is told") {
  setenv("TERM", "xterm", 1);
  const std::string text = on_terminal(200, [](std::FILE* stream) {
    Progress progress(stream, {.max_seconds = 1000, .told_left = true}, at(0));
    progress.begin_run("ADSP", at(500));  // it waited for workers
    progress.update({.seconds = 10, .loss = 2.0}, at(510));
    progress.update({.seconds = 500, .loss = 2.0, .left = 90}, at(1000));
  });
  CHECK(text.find("at 10.0 s, loss 2.0000\x1b[K") != std::string::npos);
  CHECK(text.find("at 8 min 20 s, loss 2.0000, 90 s left\x1b[K") != std::string::npos);
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
        "\r[----------]   0 % 0/2 ADSP se\x1b[K"
        "\r[----------]   0 % 0/2 ADSP se\x1b[K"
        "\r\x1b[K[1/2] ADSP seed 1: done\r\n");
  setenv("TERM", "dumb", 1);
  CHECK(drawn_on_terminal(31) == "[1/2] ADSP seed 1: done\r\n");
  unsetenv("NO_COLOR");
}
