// proto/joiner.hpp - how every node gets into the cluster: Hello to the scheduler, again each
// second, until it is welcome (and, for workers, until Start), then a heartbeat now and then.
// Who has joined needs no word of the scheduler: it trains on without. It asks for one, and gives
// up without an answer; a server only if nobody at all has any use for it.
// Pure: a part of the worker, server and evaluator cores. Threads: one owner.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/time.hpp"

namespace rubato::proto {

struct JoinTiming {
  Duration hello_every = Duration::from_seconds(1);
  Duration give_up_after = Duration::from_seconds(60);  // without any word from the scheduler
  Duration rejoin_for = Duration::from_seconds(60);     // of a worker that was a member before
  Duration heartbeat_every = Duration::from_seconds(2);
  // Once joined: without a sign of the run, such as a word of the scheduler or a commit.
  Duration forsaken_after = Duration::from_seconds(600);
  // Once joined: the silence of the scheduler after which heartbeats ask for an answer. Empty: half
  // of forsaken_after, without any sign of the run.
  std::optional<Duration> ask_after = {};
};

class Joiner {
 public:
  explicit Joiner(const JoinTiming& timing) : timing_(timing) {}

  void on_start(Instant now);
  // Any message from the scheduler arrived.
  void on_heard(Instant now);
  // Another sign that the run goes on.
  void on_sign(Instant now) { sign_ = now; }
  // No more Hello is needed.
  void on_joined(Instant now);
  bool joined() const { return joined_; }

  enum class Due { Nothing, Hello, Heartbeat };
  // What to send now. Each due message is reported once.
  Due poll(Instant now);
  std::optional<Instant> poll_wakeup() const;
  // A Timeout once the scheduler has been silent for too long while joining.
  std::optional<Error> overdue(Instant now) const;
  // Joined, and ask_after has passed: heartbeats are to ask for an answer (Message::sent).
  bool lonely(Instant now) const;
  // Since the scheduler's last word.
  Duration silence(Instant now) const { return now - heard_; }
  // A Gone once forsaken_after has.
  std::optional<Error> forsaken(Instant now) const;

 private:
  Instant last_sign() const { return std::max(heard_, sign_); }

  JoinTiming timing_;
  bool joined_ = false;
  std::optional<Instant> next_;
  Instant heard_;  // the scheduler
  Instant sign_;
};

}  // namespace rubato::proto
