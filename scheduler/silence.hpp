// scheduler/silence.hpp - finds peers that have been silent for too long. Peers are numbered from 0
// and listed in the order of their last messages.
// The owner calls lost() several times within the limit. If it calls late (its machine was frozen),
// the missed time does not count, and it can read its socket before it declares a peer lost.
// Pure. Cost: O(1) a call; a late lost() is O(peers). Memory: a few words for each number ever
// used. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/absence.hpp"
#include "base/check.hpp"
#include "base/time.hpp"

namespace rubato::scheduler {

class Silence {
 public:
  // A peer is lost when it says nothing for `limit`.
  explicit Silence(Duration limit) : limit_(limit), look_every_(limit * kLookEvery) {}

  // Peer `number` spoke, perhaps for the first time. Requires: now >= every earlier now.
  void heard(std::uint32_t number, Instant now) {
    if (number >= entries_.size()) entries_.resize(std::size_t{number} + 1);
    if (entries_[number].listed) forget(number);
    RUBATO_CHECK(last_ == kNone || entries_[last_].at <= now, "time never decreases");
    if (first_ == kNone) next_look_ = now + look_every_;
    entries_[number] = {.at = now, .before = last_, .after = kNone, .listed = true};
    (last_ == kNone ? first_ : entries_[last_].after) = number;
    last_ = number;
  }
  // Peer `number` is not expected to speak again.
  void forget(std::uint32_t number) {
    RUBATO_CHECK(number < entries_.size() && entries_[number].listed, "only a listed one goes");
    Entry& entry = entries_[number];
    (entry.before == kNone ? first_ : entries_[entry.before].after) = entry.after;
    (entry.after == kNone ? last_ : entries_[entry.after].before) = entry.before;
    entry.listed = false;
  }

  // What was silent until now was not to be heard: every silence begins anew.
  void excuse(Instant now) {
    for (auto i = first_; i != kNone; i = entries_[i].after) entries_[i].at = now;
    next_look_ = now + look_every_;
  }

  // When to call lost() next; nothing while no peer is listed.
  std::optional<Instant> poll_wakeup() const {
    if (first_ == kNone) return std::nullopt;
    return std::min(next_look_, entries_[first_].at + limit_);
  }
  // Returns: the lost peers, the longest silent first. The caller then calls forget() for each.
  std::vector<std::uint32_t> lost(Instant now) {
    if (now > next_look_)
      for (auto i = first_; i != kNone; i = entries_[i].after)
        entries_[i].at = heard_but_for_absence(entries_[i].at, next_look_, now);
    next_look_ = now + look_every_;
    std::vector<std::uint32_t> numbers;
    for (auto i = first_; i != kNone && entries_[i].at + limit_ <= now; i = entries_[i].after)
      numbers.push_back(i);
    return numbers;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr double kLookEvery = 0.2;  // of the limit
  struct Entry {
    Instant at;
    std::uint32_t before = kNone;
    std::uint32_t after = kNone;
    bool listed = false;
  };
  Duration limit_;
  Duration look_every_;
  Instant next_look_;           // while a peer is listed
  std::vector<Entry> entries_;  // by number
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
};

}  // namespace rubato::scheduler
