// worker/server_watch.hpp - how long the servers that a worker awaits have been silent: whom to ask
// and when to give up.
// One question at a time: on a slow link its answer takes as long as all that is in line before it.
// Since a question can be lost with its connection it is asked again, each time after twice as
// long. What a link has been seen to take it may take again, and more of it for a commit than for a
// pull: a server is given up after the timeout, or four times the longest silence that has ended.
// Pure: `now` never decreases. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.hpp"

namespace rubato::worker {

struct WatchTiming {
  Duration probe_after;     // of silence
  Duration server_timeout;  // of silence, at least
};

class ServerWatch {
 public:
  ServerWatch() = default;
  ServerWatch(std::size_t shards, const WatchTiming& timing) : timing_(timing), watch_(shards) {}

  std::size_t size() const { return watch_.size(); }
  // A pull or commit begins.
  void begin(Instant now);
  // Requires: it is awaited.
  void on_heard(std::uint32_t shard, Instant now);
  // Nothing is to be heard of this one yet: its silence begins now.
  void excuse(std::uint32_t shard, Instant now) { start(watch_[shard], now); }

  // When poll() has something to do, if nothing is heard.
  Instant due(std::uint32_t shard) const;
  // What is due now; to be called until it is nothing. Tell: once in a silence of a quarter of the
  // timeout, or twice as long as any that has ended.
  enum class Due { Nothing, Probe, Tell, GiveUp };
  Due poll(std::uint32_t shard, Instant now);
  // Of the Probe that poll() asked for last.
  std::uint32_t number(std::uint32_t shard) const { return watch_[shard].number; }
  // Returns: whether this answers the last Probe, for the first time. Earlier ones tell nothing
  // that a later one does not.
  bool on_answer(std::uint32_t shard, std::uint32_t number);

  Duration silence(std::uint32_t shard, Instant now) const { return now - watch_[shard].heard; }
  // The silence after which it is given up.
  Duration patience(std::uint32_t shard) const {
    return std::max(timing_.server_timeout, watch_[shard].longest * 4);
  }

 private:
  struct Shard {
    Instant heard;
    Instant probed;            // or when it began
    Duration wait;             // after both, until the next Probe
    Duration longest;          // silence that has ended
    std::uint32_t number = 0;  // of the last Probe
    bool asked = false;        // and it is not answered
    bool told = false;         // of this silence
  };
  void start(Shard& watch, Instant now) const;
  Instant next_probe(const Shard& watch) const {
    return std::max(watch.heard, watch.probed) + watch.wait;
  }
  // A silence that is worth a word.
  Duration unusual(std::uint32_t shard) const {
    return std::max(timing_.server_timeout * 0.25, watch_[shard].longest * 2);
  }

  WatchTiming timing_;
  std::vector<Shard> watch_;
};

}  // namespace rubato::worker
