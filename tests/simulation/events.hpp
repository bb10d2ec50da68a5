// tests/simulation/events.hpp - virtual time: what happens when. Events of one instant happen in
// the order in which they were planned, so that a seed gives the same history each time.
// Threads: one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace rubato::simulation {

class Events {
 public:
  Instant now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  // Requires: not empty().
  Instant next() const { return heap_.front().at; }
  std::uint64_t count() const { return count_; }

  void at(Instant instant, std::function<void()> happen) {
    heap_.push_back({std::max(instant, now_), ++order_, std::move(happen)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  void after(Duration time, std::function<void()> happen) { at(now_ + time, std::move(happen)); }

  // Time goes on without an event.
  void advance(Instant to) {
    now_ = std::max(now_, to);
    ++count_;
  }
  // Requires: not empty().
  void run_next() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    advance(event.at);
    event.happen();
  }

 private:
  struct Event {
    Instant at;
    std::uint64_t order = 0;
    std::function<void()> happen;
  };
  static bool later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  Instant now_;
  std::uint64_t order_ = 0;
  std::uint64_t count_ = 0;
  std::vector<Event> heap_;
};

}  // namespace rubato::simulation
