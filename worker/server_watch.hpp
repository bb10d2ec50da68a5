// worker/server_watch.hpp - how long the awaited servers have been silent: which of them to ask,
// and when to give one up.
// - A server is asked after four times the longest silence that is usual: what was lost with a
//   connection is missed soon where answers are quick. It is asked after kProbeLatest at the
//   latest, or once its answer would be overdue by the measured round trip (worker/round_trip.hpp);
//   while that is not known, after `probe_after`. Until kUsualKnown exchanges have ended nothing is
//   usual.
// - A server that answers has nothing yet, or its message was lost. It is asked again soon, each
//   time after twice as long.
// - Once something was lost the link is lossy, until kSoundAgain exchanges have lost nothing. There
//   a server is asked as soon as its answer would be overdue, and again after a quarter of the time
//   for which there was no news. So what is lost costs a part of the time that the exchange takes
//   anyway, and a gate that holds for long is asked ever more rarely.
// - One question at a time, because on a slow link its answer waits behind all earlier bytes.
// - A question can be lost with its connection. It is asked again, each time after twice as long,
//   but not later than after `probe_after`: a link that heals is used soon.
// - A server that leaves two questions in a row without an answer is taken to be away.
// - A server is given up after the timeout, or after four times the longest silence so far,
//   whichever is longer. A commit may take longer than the pull that was seen first.
// Pure: `now` never decreases. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.hpp"
#include "worker/round_trip.hpp"

namespace rubato::worker {

// Exchanges after which it is known which silence is usual.
inline constexpr std::uint32_t kUsualKnown = 4;
// Exchanges without a loss after which a lossy link is taken to be sound.
inline constexpr std::uint32_t kSoundAgain = 32;
// No server is asked sooner: on a sound link, and on a lossy one.
inline constexpr Duration kProbeSoonest = Duration::from_ms(500);
inline constexpr Duration kProbeSoonestLossy = Duration::from_ms(50);
// On a sound link the first question comes no later, unless the round trip is longer.
inline constexpr Duration kProbeLatest = Duration::from_seconds(1);

struct WatchTiming {
  Duration probe_after;     // of silence, at most
  Duration server_timeout;  // of silence, at least
};

class ServerWatch {
 public:
  ServerWatch() = default;
  ServerWatch(std::size_t shards, const WatchTiming& timing) : timing_(timing), watch_(shards) {}

  std::size_t size() const { return watch_.size(); }
  // A question to this server took so long.
  void on_round_trip(std::uint32_t shard, Duration time) { watch_[shard].trip.add(time); }
  // A pull or commit begins.
  void begin(Instant now);
  // A message of this server came. Requires: the server is awaited.
  void on_heard(std::uint32_t shard, Instant now);
  // It has sent something else than an answer to a question.
  void on_more(std::uint32_t shard, Instant now);
  // Something between here and this server was lost, and goes again: how long this exchange takes
  // is not usual.
  void on_lost(std::uint32_t shard, Instant now);
  // This server has nothing to answer yet. Its silence begins now.
  void excuse(std::uint32_t shard, Instant now) { start(watch_[shard], now); }

  // When poll() has something to do, if nothing is heard.
  Instant due(std::uint32_t shard) const;
  // What is due now. Call it until it returns Nothing. Tell is due once in a silence: after a
  // quarter of the timeout, or twice the longest silence so far, whichever is longer.
  enum class Due { Nothing, Probe, Tell, GiveUp };
  Due poll(std::uint32_t shard, Instant now);
  // The number of the Probe that poll() asked for last.
  std::uint32_t number(std::uint32_t shard) const { return watch_[shard].number; }
  // Returns: true for the first answer to the last Probe. Answers to earlier Probes are out of
  // date.
  bool on_answer(std::uint32_t shard, std::uint32_t number, Instant now);

  // Nothing of it came since the first of two questions.
  bool is_away(std::uint32_t shard) const { return watch_[shard].away; }

  Duration silence(std::uint32_t shard, Instant now) const { return now - watch_[shard].heard; }
  // The silence after which the server is given up.
  Duration patience(std::uint32_t shard) const {
    return std::max(timing_.server_timeout, watch_[shard].longest * 4);
  }

 private:
  struct Shard {
    Instant heard;
    Instant probed;               // the last Probe, or when the exchange began
    Duration wait;                // from the later of these two to the next Probe
    Duration longest;             // silence that has ended
    Duration longest_now;         // of this exchange
    Duration again;               // from the last answer in this silence to the next question
    Duration usual;               // the longest of the last exchanges; old ones count less and less
    RoundTrip trip;               // of questions
    Instant news;                 // the last: the exchange began, a chunk came, a loss was found
    std::uint32_t exchanges = 0;  // that have ended and lost nothing
    std::uint32_t lossy = 0;      // so many have to end and lose nothing
    std::uint32_t number = 0;     // of the last Probe
    bool asked = false;           // the last Probe is not answered
    bool told = false;            // this silence is reported
    bool lost = false;            // something of this exchange was
    bool away = false;
  };
  void start(Shard& watch, Instant now) const;
  // When an answer is overdue, but not sooner than after `soonest`.
  Duration overdue(const Shard& watch, Duration soonest) const;
  // Of silence, where that is usual.
  Duration after(Duration usual) const;
  // Of silence, to the first question.
  Duration first_wait(const Shard& watch) const;
  // On a lossy link, to the next question.
  Duration lossy_wait(const Shard& watch, Instant now) const;
  Instant next_probe(const Shard& watch) const {
    return std::max(watch.heard, watch.probed) + watch.wait;
  }
  // The silence that is reported.
  Duration unusual(std::uint32_t shard) const {
    return std::max(timing_.server_timeout * 0.25, watch_[shard].longest * 2);
  }

  WatchTiming timing_;
  std::vector<Shard> watch_;
};

}  // namespace rubato::worker
