// bench/ps_lite.cpp - commit + pull of ours beside push and pull of ps-lite on the same loopback,
// in turns. The peer is bench/ps_lite_peer.cpp, which the reader builds (docs/performance.md) and
// names in PSLITE_BENCH; it prints a line a figure: "push MIB GB/s", "pull MIB GB/s",
// "push+pull MIB GB/s", "small US" (round trip of a push of 4 KiB). Without it the rows say that
// the peer is absent.
// Usage: bench_ps_lite [--json FILE] [--quick | --smoke]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "bench/path_pair.hpp"
#include "bench/rows.hpp"

namespace {

using namespace rubato;
using Figures = std::map<std::string, std::vector<double>>;  // turns of "push 16", "small"...

// Runs the peer once and adds its figures.
Result<void> run_peer(const std::string& program, Figures& figures) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(program.c_str(), "r"), pclose);
  if (!pipe) return fail(ErrorCode::Io, "cannot run PSLITE_BENCH=" + program);
  char line[256];
  std::size_t found = 0;
  while (std::fgets(line, sizeof line, pipe.get())) {
    const std::string text(line);
    const std::size_t space = text.rfind(' ');
    if (space == std::string::npos) continue;
    figures[text.substr(0, space)].push_back(std::atof(text.c_str() + space));
    ++found;
  }
  if (found == 0)
    return fail(ErrorCode::BadInput, "PSLITE_BENCH=" + program + " printed no figure");
  return {};
}

// Median seconds of a commit with its pull.
double commit_seconds(std::size_t bytes, int rounds) {
  bench::PathPair pair(bytes / sizeof(float));
  std::vector<double> seconds;
  for (int i = -3; i < rounds; ++i) {
    const Instant began = steady_now();
    pair.round();
    if (i >= 0) seconds.push_back((steady_now() - began).seconds());
  }
  return bench::median(seconds);
}

double peer_figure(const Figures& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? 0 : bench::median(found->second);
}

Result<void> run(const bench::RunOptions& options) {
  const char* const program = options.smoke ? nullptr : std::getenv("PSLITE_BENCH");
  const int turns = options.smoke ? 1 : (options.quick ? 2 : 5);
  const int rounds = options.smoke ? 3 : 30;
  const std::vector<int> sizes = options.smoke ? std::vector{16} : std::vector{16, 64};  // MiB
  Figures ours;
  Figures peer;
  for (int turn = 0; turn < turns; ++turn) {
    if (program) RUBATO_TRY(run_peer(program, peer));
    for (const int mib : sizes) {
      const std::size_t bytes = static_cast<std::size_t>(mib) << 20;
      ours[std::to_string(mib)].push_back(2e-9 * static_cast<double>(bytes) /
                                          commit_seconds(bytes, rounds));
    }
    ours["small"].push_back(1e6 * commit_seconds(4096, 50 * rounds));
  }
  std::vector<bench::Row> rows;
  const auto add = [&](int mib, const std::string& what, const std::string& bar) {
    const std::string size = std::to_string(mib);
    rows.push_back({.name = fmt::format("commit + pull {} MiB", size),
                    .value = bench::median(ours.at(size)),
                    .unit = "GB/s",
                    .peer = "ps-lite " + what,
                    .peer_value = peer_figure(peer, what + " " + size),
                    .bar = bar});
  };
  for (const int mib : sizes) {
    add(mib, "push", ">= 1.2");
    add(mib, "pull", ">= 1.1");
    add(mib, "push+pull", "");
  }
  rows.push_back({.name = "commit + pull 4 KiB, round trip",
                  .value = bench::median(ours.at("small")),
                  .unit = "us",
                  .peer = "ps-lite push",
                  .peer_value = peer_figure(peer, "small"),
                  .bar = ""});
  return bench::report(options, rows);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto done = run(bench::parse_options(argc, argv)); !done) {
    fmt::print(stderr, "bench_ps_lite: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
