// bench/shared_memory.cpp - commit + pull between two processes of this host: through shared memory
// beside TCP, in turns, medians. Server and worker are plain loops over the transports: a commit of
// MiB in chunks of 1 MiB is added to the parameters chunk by chunk where it lies, and answered with
// the parameters chunk by chunk. Goodput counts both directions. Then the round trip of 4 KiB.
// Usage: bench_shared_memory [--json FILE] [--quick | --smoke]
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "bench/rows.hpp"
#include "proto/shm_transport.hpp"

namespace {

using namespace rubato;
using namespace rubato::proto;

constexpr std::size_t kChunk = kChunkBytesDefault / sizeof(float);

template <class T>
T expect(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "bench: {}\n", result.error().message);
  std::exit(1);
}

ShmOptions options(bool shared) {
  return {kSendTimeout, Duration::from_ms(1000), shared ? shm::host_id() : std::string()};
}

Message message_of(Body body, Payload payload) {
  return {1, {Role::Worker, 0}, 1, std::move(body), std::move(payload)};
}

Received next(Transport& transport) {
  while (true)
    if (auto received = expect(transport.receive(Duration::from_seconds(10))))
      return std::move(*received);
}

// Adds every chunk of a commit and answers it with the same range. Runs until it is killed.
[[noreturn]] void serve(int pipe, bool shared) {
  ShmTransport transport(options(shared));
  const std::string endpoint = expect(transport.listen("tcp://127.0.0.1:*"));
  (void)!::write(pipe, endpoint.c_str(), endpoint.size() + 1);
  auto parameters = std::make_shared<std::vector<float>>(64u << 18, 1.0F);
  std::vector<float> scratch;
  while (true) {
    const Received received = next(transport);
    const Message message = expect(received.message);
    const auto* commit = std::get_if<Commit>(&message.body);
    if (!commit || commit->total > parameters->size()) continue;
    const auto update = message.payload.floats(scratch);
    float* to = parameters->data() + commit->offset;
    for (std::size_t i = 0; i < update.size(); ++i) to[i] -= 0.01F * update[i];
    const Payload all(parameters, std::as_bytes(std::span(*parameters)));
    (void)expect(transport.send(received.from,
                                message_of(Parameters{commit->sequence,
                                                      1,
                                                      commit->offset,
                                                      commit->count,
                                                      commit->total,
                                                      {},
                                                      false,
                                                      PayloadCodec::F32},
                                           all.slice(commit->offset * 4, commit->count * 4))));
  }
}

struct Peer {
  explicit Peer(bool shared) : transport(options(shared)) {
    int ends[2];
    if (::pipe(ends) != 0) std::exit(1);
    server = fork_server(ends[1], shared);
    char endpoint[64] = {};
    if (::read(ends[0], endpoint, sizeof(endpoint) - 1) <= 0) std::exit(1);
    link = expect(transport.connect(endpoint));
    const Instant deadline = steady_now() + Duration::from_seconds(10);
    do {
      round(kChunk);
      if (steady_now() > deadline) expect<int>(fail(ErrorCode::Timeout, "no shared memory here"));
    } while (transport.shared_memory(link) != shared);
  }
  ~Peer() {
    ::kill(server, SIGKILL);
    ::waitpid(server, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  static pid_t fork_server(int pipe, bool shared) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(pipe, shared);
  }

  // One commit of `count` elements and its answer, loaded into our own buffer. Returns seconds.
  double round(std::size_t count) {
    const Instant start = steady_now();
    const Payload all(update, std::as_bytes(std::span(*update)));
    for (std::size_t at = 0; at < count; at += kChunk) {
      const std::size_t n = std::min(kChunk, count - at);
      (void)expect(transport.send(link, message_of(Commit{1, at, n, count, 1, PayloadCodec::F32},
                                                   all.slice(at * 4, n * 4))));
    }
    for (std::size_t at = 0; at < count; at += kChunk) {
      const Message answer = expect(next(transport).message);
      const auto& range = std::get<Parameters>(answer.body);
      const auto values = answer.payload.floats(scratch);
      std::copy(values.begin(), values.end(), loaded.begin() + static_cast<long>(range.offset));
    }
    return (steady_now() - start).seconds();
  }

  ShmTransport transport;
  std::shared_ptr<std::vector<float>> update =
      std::make_shared<std::vector<float>>(64u << 18, 1.0F);
  std::vector<float> loaded = std::vector<float>(64u << 18);
  std::vector<float> scratch;
  pid_t server = 0;
  PeerId link = 0;
};

// Median seconds of a round of `count` elements, of each peer in turns: `rounds` turns of
// `repeats`.
bench::Row compare(Peer& tcp, Peer& shared, std::size_t count, int rounds, int repeats) {
  std::vector<double> seconds[2];
  for (int i = -1; i < rounds; ++i) {
    for (Peer* peer : {&tcp, &shared}) {
      double sum = 0;
      for (int r = 0; r < repeats; ++r) sum += peer->round(count);
      if (i >= 0) seconds[peer == &shared].push_back(sum / repeats);
    }
  }
  const double bytes = static_cast<double>(count) * 2 * sizeof(float);
  const double t = bench::median(seconds[0]), s = bench::median(seconds[1]);
  if (count > kChunk)
    return {fmt::format("commit + pull {} MiB, shared memory", count >> 18),
            bytes / s / 1e9,
            "GB/s",
            "TCP",
            bytes / t / 1e9,
            ">= 3"};
  return {fmt::format("round trip {} KiB, shared memory", count >> 8),
          s * 1e6,
          "us",
          "TCP",
          t * 1e6,
          ""};
}

}  // namespace

int main(int argc, char** argv) {
  const bench::RunOptions options = bench::parse_options(argc, argv);
  const int rounds = options.smoke ? 1 : (options.quick ? 4 : 8);
  Peer tcp(false);
  Peer shared(true);
  std::vector<bench::Row> rows;
  for (const std::size_t mib :
       options.smoke ? std::vector<std::size_t>{2} : std::vector<std::size_t>{16, 32, 64})
    rows.push_back(compare(tcp, shared, mib << 18, rounds, options.smoke ? 1 : 8));
  rows.push_back(compare(tcp, shared, 1u << 10, rounds, options.smoke ? 10 : 2000));
  (void)expect(bench::report(options, rows).map([] { return 0; }));
  return 0;
}
