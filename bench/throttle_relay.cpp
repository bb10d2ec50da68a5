// A relay alone: bench/throttle.py puts it before programs that we did not write.
// Usage: bench_throttle_relay UP_MBPS DOWN_MBPS LATENCY_SECONDS TARGET   until it is ended
// What connects to the port that it prints reaches TARGET. Up is the way there.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "emulation/throttle/relay.hpp"

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "bench_throttle_relay UP_MBPS DOWN_MBPS LATENCY_SECONDS TARGET\n");
    return 2;
  }
  constexpr double kMegabit = 125'000;
  rubato::emulation::Relay relay({.latency_seconds = std::atof(argv[3]),
                                  .up_bytes_per_second = std::atof(argv[1]) * kMegabit,
                                  .down_bytes_per_second = std::atof(argv[2]) * kMegabit},
                                 1);
  const auto way = relay.way_out(argv[4]);
  if (!way) {
    fmt::print(stderr, "{}\n", way.error().message);
    return 1;
  }
  fmt::print("{}\n", way->substr(way->rfind(':') + 1));
  std::fflush(stdout);
  pause();
}
