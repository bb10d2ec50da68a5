// emulation/virtual_event.hpp - what is to happen in the virtual cluster, and the queue of it: in
// the order of instants, of one instant in the order of scheduling. So the sequence is fixed,
// whatever the queue is made of. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "base/time.hpp"
#include "emulation/virtual_network.hpp"

namespace rubato::emulation {

struct Event {
  Instant at;
  std::uint64_t order = 0;  // ties: first scheduled, first served
  enum class Kind {
    Network,
    Arrive,
    Process,
    Wakeup,
    StepEnd,
    LoopEnd,  // a worker's own loop has ended: it leaves
    Evaluated,
    Churn,
    Thaw,
    Mend,
    Link
  } kind = Kind::Network;
  VirtualNetwork::Node node = 0;
  std::uint64_t tag = 0;

  bool before(const Event& other) const {
    return at != other.at ? at < other.at : order < other.order;
  }
};

// A heap in which each has four children: half as deep as one with two, the four in two cache
// lines.
class EventHeap {
 public:
  bool empty() const { return heap_.empty(); }
  const Event& front() const { return heap_.front(); }

  void push(const Event& event) {
    std::size_t place = heap_.size();
    heap_.push_back(event);
    for (; place > 0; place = (place - 1) / 4) {
      const Event& parent = heap_[(place - 1) / 4];
      if (!event.before(parent)) break;
      heap_[place] = parent;
    }
    heap_[place] = event;
  }

  // Requires: not empty.
  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return first;
    std::size_t place = 0;
    for (std::size_t child = 1; child < heap_.size(); child = 4 * place + 1) {
      const std::size_t end = std::min(child + 4, heap_.size());
      for (std::size_t other = child + 1; other < end; ++other)
        if (heap_[other].before(heap_[child])) child = other;
      if (!heap_[child].before(last)) break;
      heap_[place] = heap_[child];
      place = child;
    }
    heap_[place] = last;
    return first;
  }

 private:
  std::vector<Event> heap_;
};

// Almost every message makes a Network event of this very instant: those have a heap of their own,
// where they do not pass by the thousands that are due later.
class EventQueue {
 public:
  bool empty() const { return network_.empty() && others_.empty(); }

  void push(Instant at, Event::Kind kind, VirtualNetwork::Node node, std::uint64_t tag) {
    const Event event{at, ++order_, kind, node, tag};
    (kind == Event::Kind::Network ? network_ : others_).push(event);
  }

  Event pop() {
    RUBATO_CHECK(!empty(), "a running cluster always has a next event");
    const bool network =
        !network_.empty() && (others_.empty() || network_.front().before(others_.front()));
    return (network ? network_ : others_).pop();
  }

  // What will probably be popped next but for the network's; null if there is none.
  const Event* next() const { return others_.empty() ? nullptr : &others_.front(); }

 private:
  std::uint64_t order_ = 0;
  EventHeap network_;
  EventHeap others_;
};

}  // namespace rubato::emulation
