// bench/ps_lite_peer.cpp - push and pull of ps-lite on this machine's loopback, the peer that
// bench/ps_lite.cpp runs in turns with ours.  ps-lite's own tests/test_kv_app_benchmark.cc gives
// every float a key of its own, and its server throws away what is pushed; here one key holds a
// tensor. Usage: ps_lite_peer   prints "push MIB GB/s", "pull MIB GB/s", "push+pull MIB GB/s" (the
// bytes of both by the time of both) for 16 and 64 MiB, and "small US", the round trip of a 4 KiB
// push.
#include <ps/ps.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"
#include "base/time.hpp"

namespace {

constexpr std::size_t kFloatsPerMib = (1u << 20) / sizeof(float);

// The server: adds what is pushed to what it holds; answers a pull with that, without a copy.
class Store {
 public:
  void handle(const ps::KVMeta& meta, const ps::KVPairs<float>& request,
              ps::KVServer<float>* server) {
    auto& held = tensors_[request.keys[0]];
    ps::KVPairs<float> response;
    if (meta.push) {
      if (held.empty()) held.resize(request.vals.size(), 0.0f);
      float* const to = held.data();
      const float* const from = request.vals.data();
      for (std::size_t i = 0; i < request.vals.size(); ++i) to[i] += from[i];
    } else {
      response.keys = request.keys;
      response.vals = held;
      response.lens = ps::SArray<int>({static_cast<int>(held.size())});
    }
    server->Response(meta, response);
  }

 private:
  std::unordered_map<ps::Key, ps::SArray<float>> tensors_;
};

// Median seconds of `work`, after three to warm up.
template <class Work>
double median_seconds(const Work& work, int rounds) {
  std::vector<double> seconds;
  for (int i = -3; i < rounds; ++i) {
    const rubato::Instant began = rubato::steady_now();
    work();
    if (i >= 0) seconds.push_back((rubato::steady_now() - began).seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// One tensor of a worker, and its two zero-copy calls.
class Tensor {
 public:
  Tensor(ps::KVWorker<float>& worker, ps::Key key, std::size_t floats)
      : worker_(worker),
        keys_({key}),
        update_(floats, 1.0f),
        parameters_(floats, 0.0f),
        lengths_({static_cast<int>(floats)}),
        pulled_lengths_({static_cast<int>(floats)}) {}

  void push() { worker_.Wait(worker_.ZPush(keys_, update_, lengths_)); }
  void pull() { worker_.Wait(worker_.ZPull(keys_, &parameters_, &pulled_lengths_)); }

 private:
  ps::KVWorker<float>& worker_;
  ps::SArray<ps::Key> keys_;
  ps::SArray<float> update_, parameters_;
  ps::SArray<int> lengths_, pulled_lengths_;
};

void work() {
  constexpr int kRounds = 24;
  ps::KVWorker<float> worker(0, 0);
  ps::Key key = 1;
  for (const int mib : {16, 64}) {
    const std::size_t floats = static_cast<std::size_t>(mib) * kFloatsPerMib;
    const double gigabytes = 4e-9 * static_cast<double>(floats);
    Tensor tensor(worker, key++, floats);
    const double push = median_seconds([&] { tensor.push(); }, kRounds);
    const double pull = median_seconds([&] { tensor.pull(); }, kRounds);
    const auto both_calls = [&] {
      tensor.push();
      tensor.pull();
    };
    const double both = median_seconds(both_calls, kRounds);
    std::printf("push %d %.4f\npull %d %.4f\npush+pull %d %.4f\n", mib, gigabytes / push, mib,
                gigabytes / pull, mib, 2 * gigabytes / both);
  }
  Tensor small(worker, key, 1024);
  std::printf("small %.2f\n", 1e6 * median_seconds([&] { small.push(); }, 2000));
  std::fflush(stdout);
}

void set_variable(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

// ps-lite reads who it is from the environment. Returns: the role of this process, of three.
std::string become_a_role(std::vector<pid_t>& children) {
  set_variable("DMLC_NUM_WORKER", "1");
  set_variable("DMLC_NUM_SERVER", "1");
  set_variable("DMLC_PS_ROOT_URI", "127.0.0.1");
  set_variable("DMLC_PS_ROOT_PORT", std::to_string(24000 + ::getpid() % 8000));
  set_variable("DMLC_INTERFACE", "lo");
  set_variable("DMLC_NODE_HOST", "127.0.0.1");
  for (const char* const role : {"scheduler", "server"}) {
    const pid_t child = ::fork();
    if (child == 0) return role;
    children.push_back(child);
  }
  return "worker";
}

}  // namespace

int main() {
  rubato::keep_freed_memory();  // as our processes do
  std::vector<pid_t> children;
  const std::string role = become_a_role(children);
  set_variable("DMLC_ROLE", role);
  ps::Start(0);
  Store store;
  std::unique_ptr<ps::KVServer<float>> server;
  if (role == "server") {
    server = std::make_unique<ps::KVServer<float>>(0);
    server->set_request_handle([&store](const auto& meta, const auto& request, auto* from) {
      store.handle(meta, request, from);
    });
    ps::RegisterExitCallback([&server] { server.reset(); });
  }
  if (role == "worker") work();
  ps::Finalize(0, true);
  if (role == "worker")
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  return 0;
}
