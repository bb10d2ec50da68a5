// proto/zmq_curve.hpp - ZeroMQ's CURVE: new keys, and the guard who answers ZAP, ZeroMQ's question
// whether the owner of a key may connect. The guard lets in the scheduler's key and those of a
// directory, which it looks at every second, and names the owner in the connection's User-Id.
// Threads: the guard has one of its own; its other functions are any thread's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "proto/identity.hpp"
#include "proto/known_peers.hpp"

namespace zmq {
class context_t;
}

namespace rubato::proto {

struct CurvePair {
  std::string public_key;
  std::string secret_key;
};
CurvePair make_curve_pair();

class KeyGuard {
 public:
  // `context`: whose listeners it guards, none of which listens yet. `changed`: called on the
  // guard's thread after keys came or went. Lifetime: the context outlives it.
  KeyGuard(zmq::context_t& context, const Keys& keys, std::function<void()> changed);
  ~KeyGuard();
  KeyGuard(const KeyGuard&) = delete;
  KeyGuard& operator=(const KeyGuard&) = delete;

  // Who may connect.
  std::shared_ptr<const KnownPeers::Allowed> allowed() const;
  // Another number: allowed() is another map.
  std::uint64_t generation() const { return generation_; }

 private:
  class Thread;

  mutable std::mutex mutex_;  // guards allowed_
  std::shared_ptr<const KnownPeers::Allowed> allowed_;
  std::atomic<std::uint64_t> generation_ = 0;
  std::unique_ptr<Thread> thread_;  // last: it uses the members above
};

}  // namespace rubato::proto
