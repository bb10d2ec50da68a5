// proto/outbox.hpp - what a core's poll_send() yields: a message and its receiver.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "proto/messages.hpp"

namespace rubato::proto {

// From a worker or evaluator, which knows its peers by their place in the cluster.
struct ToNode {
  NodeId to;
  Message message;
};

// From a server or the scheduler, which answers whoever asked.
struct ToPeer {
  PeerId to = 0;
  Message message;
};

// First in, first out. Memory: a ring that grows to the most that ever waited. Threads: one owner.
template <class T>
class Outbox {
 public:
  void push(T item) {
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_++) % ring_.size()] = std::move(item);
  }
  std::optional<T> poll() {
    if (count_ == 0) return std::nullopt;
    std::optional<T> item(std::exchange(ring_[first_], T{}));  // lets go of its payload now
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return item;
  }

 private:
  static constexpr std::size_t kCapacityMin = 8;

  void grow() {
    std::vector<T> larger(std::max(kCapacityMin, 2 * ring_.size()));
    for (std::size_t i = 0; i < count_; ++i)
      larger[i] = std::move(ring_[(first_ + i) % ring_.size()]);
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace rubato::proto
