// worker/server_check.hpp - a worker looks before it joins, each time: the scheduler says where the
// servers are, and each must answer a short question, and then a long one: there are links that
// lose only large packets. A worker that joined without them would train nothing, and others would
// wait for it. What it cannot reach, it says itself, and the scheduler says it too. Pure: a part of
// worker/membership.hpp, which repeats its questions every second. Threads: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"
#include "worker/mail.hpp"

namespace rubato::worker {

class ServerCheck {
 public:
  // `hello`: of this worker. `give_up_after`: while a server does not answer.
  ServerCheck(proto::Hello hello, Duration give_up_after);

  // Asks the scheduler where the servers are, and the silent servers whether they are there.
  void ask(Instant now, Mail& mail);
  void on_message(Instant now, proto::NodeId from, const proto::Message& message, Mail& mail);
  // Why a server is not reached, for the scheduler.
  void on_trouble(std::string text, Mail& mail);
  // An Io once a server has been out of reach for too long.
  std::optional<Error> overdue(Instant now) const;

  // Every server has answered both questions.
  bool done() const { return shards_ && silent().empty(); }
  // Of the short question to each server. Requires: done().
  std::vector<Duration> round_trips() const;
  // Once the scheduler has said where the servers are.
  const std::optional<proto::ShardMap>& shards() const { return shards_; }
  // Servers that were asked and have not answered, of both questions.
  std::vector<std::uint32_t> silent() const;
  bool heard(std::uint32_t server) const { return heard_.contains(server); }
  // One of them has answered the short question, and for kLongWithin not the long one.
  bool loses_large(std::uint32_t server, Instant now) const;

  static constexpr Duration kLongWithin = Duration::from_seconds(10);
  // A connection that breaks takes the long question with it. Sooner would fill a slow link.
  static constexpr Duration kLongAgain = Duration::from_seconds(3);

 private:
  struct Heard {
    Instant at;
    Duration took;
    std::optional<Instant> asked_long = {};  // for the last time
    bool whole = false;                      // it has answered the long question
  };
  void ask_servers(Instant now, Mail& mail);
  void ask_server(Instant now, std::uint32_t index, Mail& mail);

  proto::Hello hello_;
  Duration give_up_after_;
  std::optional<proto::ShardMap> shards_;
  Instant asked_since_;
  std::map<std::uint32_t, Heard> heard_;  // by server
};

}  // namespace rubato::worker
