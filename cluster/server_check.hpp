// cluster/server_check.hpp - a worker looks before it joins: the scheduler says where the servers
// are, and each must answer. A worker that joined without them would train nothing, and others
// would wait for it. What it cannot reach, it says itself, and the scheduler says it too.
// The core is pure: each question is repeated every second; the time without a server has an end.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/joiner.hpp"
#include "proto/messages.hpp"
#include "proto/outbox.hpp"
#include "proto/transport.hpp"

namespace rubato::cluster {

struct ServerCheckOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::string name;      // of the worker
  std::string settings;  // as in Hello, as the next
  std::uint64_t parameters = 0;
  proto::JoinTiming timing = {};
  Duration give_up_after = Duration::from_seconds(600);  // while a server does not answer
};

class ServerCheck {
 public:
  explicit ServerCheck(ServerCheckOptions options);

  void on_start(Instant now);
  void on_message(Instant now, proto::NodeId from, const proto::Message& message);
  void on_wakeup(Instant now);
  // Why a server is not reached, for the scheduler.
  void on_trouble(Instant now, std::string text);
  std::optional<proto::ToNode> poll_send() { return outbox_.poll(); }
  std::optional<Instant> poll_wakeup() const { return joiner_.poll_wakeup(); }
  std::optional<std::string> poll_log() { return log_.poll(); }
  // Set once every server has answered.
  const std::optional<std::string>& stopped() const { return stopped_; }
  const std::optional<Error>& failure() const { return failure_; }
  const std::optional<proto::ShardMap>& shards() const { return shards_; }
  // Servers that were asked and have not answered.
  std::vector<std::uint32_t> silent() const;

 private:
  void send(Instant now, proto::NodeId to, proto::Body body, bool ask);
  void say_hello(Instant now);
  void ask_servers(Instant now);
  void on_welcome(Instant now, const proto::ShardMap& shards);

  ServerCheckOptions options_;
  proto::Joiner joiner_;
  std::optional<proto::ShardMap> shards_;
  Instant asked_since_;
  std::set<std::uint32_t> heard_;
  std::string trouble_;
  std::optional<std::string> stopped_;
  std::optional<Error> failure_;
  proto::Outbox<proto::ToNode> outbox_;
  proto::Outbox<std::string> log_;
};

// Returns once every server has answered. Errors: Stopped by `stop`; Refused, in the words of
// the scheduler; Timeout where the scheduler does not answer; Io where a server does not.
[[nodiscard]] Result<void> await_servers(proto::Transport& transport, const std::string& scheduler,
                                         ServerCheckOptions options, const std::stop_token& stop);

}  // namespace rubato::cluster
