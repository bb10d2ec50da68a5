// worker/membership.hpp - how a worker belongs to a cluster: Hello until Welcome and Start, then
// heartbeats, and a farewell. After a lost membership it joins again as a new incarnation. So it
// does when a shard went back to a snapshot, but then it keeps its number and its totals. Where the
// options say so, it first looks each time whether the servers are there.
// It knows two lives: the worker's own (incarnation) and the scheduler's (run).
// Pure. Threads: one owner. Errors: Refused, Corrupt or Timeout; each line names the peer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/joiner.hpp"
#include "worker/mail.hpp"
#include "worker/server_check.hpp"

namespace rubato::worker {

struct MembershipOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::string name;
  std::string settings = {};   // of the cluster, one a line
  std::uint64_t left_out = 0;  // files and samples of its own data that it does not take
  std::uint64_t parameters = 0;
  proto::JoinTiming timing;
  // Before it joins each server must answer, within this time. Empty: it does not look.
  std::optional<Duration> servers_within = {};
};

class Membership {
 public:
  explicit Membership(const MembershipOptions& options);

  void on_start(Instant now) { begin(now); }
  // Sends Hello when it is due. Returns: true when a heartbeat is due, which the caller sends.
  // Timeout when the scheduler has not answered Hello for too long; Gone when it answers nothing;
  // Io when a server is out of reach.
  [[nodiscard]] Result<bool> on_wakeup(Instant now);
  std::optional<Instant> poll_wakeup() const { return joiner_.poll_wakeup(); }
  // Nothing came of the scheduler for so long that a heartbeat is to ask for an answer.
  bool lonely(Instant now) const { return joiner_.lonely(now); }
  // Since the scheduler's last word.
  Duration silence(Instant now) const { return joiner_.silence(now); }

  enum class News {
    None,
    Welcome,        // id() is known, and the message has the shard map
    WelcomeNewRun,  // a Welcome to another run than the last
    Start,          // the worker may pull parameters
    Lost,           // the worker is no member any more: rejoin()
  };
  // What `message` of `from` means for the membership. `served`: the servers have answered a pull
  // of this incarnation. Peers answer in order, so before that a server's refusals are of an
  // earlier one.
  [[nodiscard]] Result<News> on_message(Instant now, proto::NodeId from,
                                        const proto::Message& message, bool served);
  // The worker begins to pull. No more Hello is needed.
  void on_joined(Instant now) { joiner_.on_joined(now); }
  // A new incarnation says Hello at the next on_wakeup(). `again`: a member that was told to, which
  // keeps its number.
  void rejoin(Instant now, bool again = false);
  // Says farewell, if any scheduler knows this worker, or this incarnation as its next one.
  void leave(const std::string& reason);

  // What it looks for before it joins; null: it does not look now.
  ServerCheck* check() { return check_.get(); }
  const ServerCheck* check() const { return check_.get(); }
  // As ServerCheck::round_trips(), of the last look. Empty: it has not looked.
  const std::vector<Duration>& round_trips() const { return round_trips_; }
  // Nothing until Welcome.
  const std::optional<proto::NodeId>& id() const { return id_; }
  // That earlier processes of this name have made, as the first Welcome says.
  std::uint64_t earlier_steps() const { return earlier_steps_.value_or(0); }
  // The scheduler's life that this worker joined last. Nothing before the first Welcome.
  const std::optional<Incarnation>& run() const { return run_; }
  Mail& mail() { return mail_; }
  const Mail& mail() const { return mail_; }

 private:
  void begin(Instant now);
  proto::Hello hello() const;
  Result<News> on_welcome(Incarnation run, const proto::Welcome& welcome);
  Result<News> on_refusal(proto::NodeId from, const proto::Refusal& refusal, bool served) const;

  MembershipOptions options_;
  std::optional<Incarnation> run_;
  std::optional<proto::NodeId> id_;
  std::optional<std::uint64_t> earlier_steps_;
  bool again_ = false;  // the next Hello is of a member that was told to join again
  proto::Joiner joiner_;
  std::unique_ptr<ServerCheck> check_;  // there until every server has answered
  std::vector<Duration> round_trips_;
  Mail mail_;
};

}  // namespace rubato::worker
