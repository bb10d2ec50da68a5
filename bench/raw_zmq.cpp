#include "bench/raw_zmq.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
#include <zmq.hpp>

namespace rubato::bench {
namespace {

using zmq::message_t;
using zmq::send_flags;

message_t borrowed(const void* data, std::size_t bytes) {
  return {const_cast<void*>(data), bytes, [](void*, void*) {}, nullptr};
}

}  // namespace

struct RawPair::Sockets {
  Arithmetic arithmetic;
  std::vector<float> server_parameters;
  std::vector<float> update;
  std::vector<float> worker_parameters;
  zmq::context_t server_context;
  zmq::context_t worker_context;
  zmq::socket_t router;
  zmq::socket_t dealer;
  std::thread server;

  Sockets(std::size_t model_bytes, Arithmetic a, Ends ends)
      : arithmetic(a),
        server_parameters(model_bytes / sizeof(float), 1.0f),
        update(model_bytes / sizeof(float), 1e-6f),
        worker_parameters(model_bytes / sizeof(float)) {
    // The first socket of a context starts its threads, where its creator runs.
    const Cores cores = cores_of(ends);
    cores.place(1);
    dealer = {worker_context, zmq::socket_type::dealer};
    cores.place(0);
    router = {server_context, zmq::socket_type::router};
    router.set(zmq::sockopt::sndhwm, 0);
    router.set(zmq::sockopt::rcvhwm, 0);
    dealer.set(zmq::sockopt::sndhwm, 0);
    dealer.set(zmq::sockopt::rcvhwm, 0);
    router.bind("tcp://127.0.0.1:*");
    dealer.connect(router.get(zmq::sockopt::last_endpoint));
    server = std::thread([this] { serve(); });
    cores.place(1);
  }

  void serve() {
    while (true) {
      message_t id, offset, chunk;
      (void)router.recv(id);
      (void)router.recv(offset);
      if (!offset.more()) return;
      (void)router.recv(chunk);
      std::uint64_t at = 0;
      std::memcpy(&at, offset.data(), sizeof(at));
      float* w = server_parameters.data() + at;
      router.send(id, send_flags::sndmore);
      router.send(offset, send_flags::sndmore);
      if (arithmetic == Arithmetic::No) {
        router.send(borrowed(w, chunk.size()), send_flags::none);
        continue;
      }
      const std::size_t n = chunk.size() / sizeof(float);
      const float* u = chunk.data<float>();
      for (std::size_t i = 0; i < n; ++i) w[i] -= 0.5f * u[i];
      router.send(message_t(w, chunk.size()), send_flags::none);
    }
  }

  void round() {
    const std::size_t chunk = kRawChunkBytes / sizeof(float);
    std::size_t chunks = 0;
    for (std::uint64_t at = 0; at < update.size(); at += chunk, ++chunks) {
      const std::size_t n = std::min(chunk, update.size() - at);
      dealer.send(message_t(&at, sizeof(at)), send_flags::sndmore);
      dealer.send(borrowed(update.data() + at, n * sizeof(float)), send_flags::none);
    }
    for (std::size_t i = 0; i < chunks; ++i) {
      message_t offset, parameters;
      (void)dealer.recv(offset);
      (void)dealer.recv(parameters);
      if (arithmetic == Arithmetic::No) continue;
      std::uint64_t at = 0;
      std::memcpy(&at, offset.data(), sizeof(at));
      std::memcpy(worker_parameters.data() + at, parameters.data(), parameters.size());
    }
  }
};

RawPair::RawPair(std::size_t model_bytes, Arithmetic arithmetic, Ends ends)
    : sockets_(std::make_unique<Sockets>(model_bytes, arithmetic, ends)) {}

RawPair::~RawPair() {
  sockets_->dealer.send(message_t(), send_flags::none);  // one part: the end
  sockets_->server.join();
}

void RawPair::round() {
  sockets_->round();
}

RawProcess::RawProcess(std::size_t model_bytes, RawPair::Arithmetic arithmetic, Ends ends) {
  std::array<int, 2> down{}, up{};
  std::string flag = kRawFlag;
  std::string bytes = std::to_string(model_bytes);
  std::string mode = arithmetic == RawPair::Arithmetic::Yes ? "adds" : "moves";
  std::string where = ends == Ends::Apart ? "apart" : "anywhere";
  std::string self = "/proc/self/exe";
  std::array<char*, 6> arguments = {self.data(), flag.data(),  bytes.data(),
                                    mode.data(), where.data(), nullptr};
  posix_spawn_file_actions_t files;
  bool ok = ::pipe(down.data()) == 0 && ::pipe(up.data()) == 0;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, down[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, up[1], STDOUT_FILENO);
  for (const int fd : {down[0], down[1], up[0], up[1]})
    posix_spawn_file_actions_addclose(&files, fd);
  ok = ok && ::posix_spawn(&pid_, self.c_str(), &files, nullptr, arguments.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&files);
  if (!ok) {
    std::perror("parameter_path: cannot start the raw peer");
    std::exit(1);
  }
  ::close(down[0]);
  ::close(up[1]);
  to_child_ = down[1];
  from_child_ = up[0];
}

RawProcess::~RawProcess() {
  ::close(to_child_);
  ::close(from_child_);
  ::waitpid(pid_, nullptr, 0);
}

void RawProcess::rounds(int count) {
  char done = 0;
  if (::write(to_child_, &count, sizeof(count)) == sizeof(count) &&
      ::read(from_child_, &done, 1) == 1)
    return;
  std::fputs("parameter_path: the raw peer died\n", stderr);
  std::exit(1);
}

int serve_raw(std::span<char* const> arguments) {
  if (arguments.size() != 3) return 2;
  const std::string_view mode = arguments[1], where = arguments[2];
  RawPair pair(std::stoul(arguments[0]),
               mode == "adds" ? RawPair::Arithmetic::Yes : RawPair::Arithmetic::No,
               where == "apart" ? Ends::Apart : Ends::Anywhere);
  int count = 0;
  while (::read(STDIN_FILENO, &count, sizeof(count)) == sizeof(count)) {
    for (int i = 0; i < count; ++i) pair.round();
    if (::write(STDOUT_FILENO, "", 1) != 1) return 1;
  }
  return 0;
}

}  // namespace rubato::bench
