// bench/shared_memory.cpp - commit + pull between two processes of this host: through shared memory
// beside TCP, in turns, medians. Server and worker are the real cores over the transport of real
// nodes, as in bench/path_pair.hpp, the server in a process of its own. Goodput counts both
// directions. Then the round trip of 4 KiB.
// Usage: bench_shared_memory [--json FILE] [--quick | --smoke]
//   [--apart] --commit KIB       the time of a commit of that size through shared memory, and
//                                nothing else; apart: server and worker on a core each
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "bench/ends.hpp"
#include "bench/path_pair.hpp"
#include "bench/rows.hpp"

namespace {

using namespace rubato;
using bench::Wire;

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "bench_shared_memory: {}\n", why);
  std::exit(1);
}

constexpr const char* kServe = "serve";

// What a server's process does: says where it listens, and serves until it is killed.
[[noreturn]] void serve(int pipe, std::size_t count, Wire wire) {
  const bench::PathServers servers(count, 1, 1, "asp", wire);
  const std::string& endpoint = servers.shards().shards[0].endpoint;
  (void)!::write(pipe, endpoint.c_str(), endpoint.size() + 1);
  ::close(pipe);
  while (true) ::pause();
}

// A server of `count` parameters in a process of its own, and a worker in this one.
class Peer {
 public:
  Peer(std::size_t count, Wire wire, bench::Ends placed = bench::Ends::Anywhere) {
    int ends[2];
    if (::pipe(ends) != 0) give_up("no pipe");
    const Cores cores = bench::cores_of(placed);
    cores.place(0);
    server_ = start_server(ends[1], count, wire);
    cores.place(1);
    ::close(ends[1]);
    char endpoint[64] = {};
    if (::read(ends[0], endpoint, sizeof(endpoint) - 1) <= 0) give_up("the server does not start");
    ::close(ends[0]);
    const proto::ShardMap map{{{proto::shard_range(count, 0, 1), endpoint}}};
    worker_ = std::make_unique<bench::PathWorkers>(map, 0, 1, wire);
    const Instant deadline = steady_now() + Duration::from_seconds(10);
    do {
      worker_->round();
      if (steady_now() > deadline) give_up("no shared memory here");
    } while (worker_->shared_memory() != (wire == Wire::SharedMemory));
  }
  ~Peer() {
    worker_.reset();
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Mean seconds of a commit and its answer.
  double seconds(int commits) {
    const Instant start = steady_now();
    for (int i = 0; i < commits; ++i) worker_->round();
    return (steady_now() - start).seconds() / commits;
  }

 private:
  // This program again: a process that is only forked has no memory of its own to share.
  static pid_t start_server(int pipe, std::size_t count, Wire wire) {
    std::string words[] = {"bench_shared_memory", kServe, std::to_string(pipe),
                           std::to_string(count), wire == Wire::Tcp ? "tcp" : "shm"};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(),
                    words[3].data(), words[4].data(), nullptr};
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execv("/proc/self/exe", argv);
    ::_exit(127);
  }

  pid_t server_ = 0;
  std::unique_ptr<bench::PathWorkers> worker_;
};

// Median seconds of a commit of `count` elements, of each wire in turns.
bench::Row compare(std::size_t count, int rounds, int commits) {
  Peer tcp(count, Wire::Tcp);
  Peer shared(count, Wire::SharedMemory);
  std::vector<double> tcp_seconds;
  std::vector<double> shared_seconds;
  for (int i = -1; i < rounds; ++i) {
    const double t = tcp.seconds(commits);
    const double s = shared.seconds(commits);
    if (i < 0) continue;
    tcp_seconds.push_back(t);
    shared_seconds.push_back(s);
  }
  const double bytes = static_cast<double>(count) * 2 * sizeof(float);
  const double t = bench::median(tcp_seconds);
  const double s = bench::median(shared_seconds);
  if (count <= 1024)
    return {fmt::format("round trip {} KiB, shared memory", count >> 8),
            s * 1e6,
            "us",
            "TCP",
            t * 1e6,
            ""};
  return {fmt::format("commit + pull {} MiB, shared memory", count >> 18),
          bytes / s / 1e9,
          "GB/s",
          "TCP",
          bytes / t / 1e9,
          ">= 3"};
}

int commit_only(std::size_t kib, bench::Ends ends) {
  Peer peer(kib << 8, Wire::SharedMemory, ends);
  const auto commits = static_cast<int>(std::clamp<std::size_t>((1 << 22) / kib, 1, 100'000));
  peer.seconds(commits / 10);  // the buffers are there, and cold no more
  fmt::print("{:.4g} us a commit of {} KiB\n", peer.seconds(commits) * 1e6, kib);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 4 && words[0] == kServe)
    serve(std::stoi(words[1]), std::stoul(words[2]),
          words[3] == "tcp" ? Wire::Tcp : Wire::SharedMemory);
  const bool apart = !words.empty() && words[0] == "--apart";
  if (words.size() == (apart ? 3 : 2) && words[apart ? 1 : 0] == "--commit")
    return commit_only(std::stoul(words.back()),
                       apart ? bench::Ends::Apart : bench::Ends::Anywhere);
  const bench::RunOptions options = bench::parse_options(argc, argv);
  const int rounds = options.smoke ? 1 : (options.quick ? 4 : 8);
  std::vector<bench::Row> rows;
  for (const std::size_t mib :
       options.smoke ? std::vector<std::size_t>{2} : std::vector<std::size_t>{16, 32, 64})
    rows.push_back(compare(mib << 18, rounds, options.smoke ? 1 : 8));
  rows.push_back(compare(1u << 10, rounds, options.smoke ? 10 : 2000));
  if (const auto done = bench::report(options, rows); !done) give_up(done.error().message);
  return 0;
}
