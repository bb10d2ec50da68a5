// server/silence.hpp - who has been silent for longest, among peers that are numbered from 0: a
// list in the order of their last words, since time never goes back. Every call is O(1).
// Pure. Memory: a few words a number ever used. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "base/time.hpp"

namespace rubato::server {

class Silence {
 public:
  // Peer `number` spoke, perhaps for the first time. Requires: now >= every earlier now.
  void heard(std::uint32_t number, Instant now) {
    if (number >= entries_.size()) entries_.resize(std::size_t{number} + 1);
    if (entries_[number].listed) forget(number);
    RUBATO_CHECK(last_ == kNone || entries_[last_].at <= now, "time never decreases");
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

  struct Last {
    std::uint32_t number = 0;
    Instant at;
  };
  // The one that spoke longest ago, and when.
  std::optional<Last> longest() const {
    if (first_ == kNone) return std::nullopt;
    return Last{first_, entries_[first_].at};
  }
  // Those that have been silent since `at` or before.
  std::vector<std::uint32_t> since(Instant at) const {
    std::vector<std::uint32_t> numbers;
    for (auto i = first_; i != kNone && entries_[i].at <= at; i = entries_[i].after)
      numbers.push_back(i);
    return numbers;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Entry {
    Instant at;
    std::uint32_t before = kNone;
    std::uint32_t after = kNone;
    bool listed = false;
  };
  std::vector<Entry> entries_;  // by number
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
};

}  // namespace rubato::server
