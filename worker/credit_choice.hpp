// worker/credit_choice.hpp - how many chunks of a commit may be under way at all shards together,
// when they go by need.
// Few chunks keep their order on the worker's own link. Many are better where the servers' links
// are narrow, or where latency is long beside a chunk. Only commits can tell. So the choice begins
// with the most and tries half or twice as many for some commits. It keeps the number that blocked
// the worker for less time. After a lost trial the next one comes later.
// Pure: no clock, no randomness. Units: chunks. Threads: one owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/time.hpp"

namespace rubato::worker {

class CreditChoice {
 public:
  // One credit: nothing to choose.
  explicit CreditChoice(std::uint32_t least = 1, std::uint32_t most = 1)
      : least_(least), most_(most), now_(most), best_(most) {}

  // Of the next commit.
  std::uint32_t credit() const { return now_; }
  // A commit blocked the worker for so long, waits for other workers not counted. Returns: when the
  // choice is another one now, a line that says what was compared.
  std::optional<std::string> on_commit(Duration blocked);

 private:
  static constexpr std::size_t kSamples = 3;

  std::uint32_t neighbour() const;
  bool at_an_end() const { return best_ == least_ || best_ == most_; }

  std::uint32_t least_;
  std::uint32_t most_;
  std::uint32_t now_;
  std::uint32_t best_;                        // the choice; now_ is another one while it is tried
  bool up_ = false;                           // the direction of the next trial
  std::array<Duration, kSamples> samples_{};  // of the last commits with now_
  std::size_t count_ = 0;                     // commits with now_
  std::size_t rest_ = kSamples;               // of these before the next trial
  std::uint64_t lost_ = 0;                    // trials, one after the other
  Duration best_blocked_;                     // with best_, when the trial began
};

}  // namespace rubato::worker
