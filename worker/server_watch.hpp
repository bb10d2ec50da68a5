// worker/server_watch.hpp - how long the servers that a worker awaits have been silent: whom to ask
// and when to give up.
// Pure: `now` never decreases. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.hpp"

namespace rubato::worker {

struct WatchTiming {
  Duration probe_after;     // of silence
  Duration server_timeout;  // of silence
};

class ServerWatch {
 public:
  ServerWatch() = default;
  ServerWatch(std::size_t shards, const WatchTiming& timing) : timing_(timing), watch_(shards) {}

  std::size_t size() const { return watch_.size(); }
  // A pull or commit begins.
  void begin(Instant now) { watch_.assign(watch_.size(), {now, now}); }
  void on_heard(std::uint32_t shard, Instant now) { watch_[shard].heard = now; }
  // Nothing is to be heard of this one yet: its silence begins now.
  void excuse(std::uint32_t shard, Instant now) { watch_[shard] = {now, now}; }

  // When poll() has something to do, if nothing is heard.
  Instant due(std::uint32_t shard) const;
  enum class Due { Nothing, Probe, GiveUp };
  Due poll(std::uint32_t shard, Instant now);

 private:
  struct Shard {
    Instant heard;
    Instant probed;
  };
  WatchTiming timing_;
  std::vector<Shard> watch_;
};

}  // namespace rubato::worker
