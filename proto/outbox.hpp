// proto/outbox.hpp - what a core's poll_send() yields: a message and its receiver.
#pragma once

#include <deque>
#include <optional>
#include <utility>

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

// First in, first out. Threads: one owner.
template <class T>
class Outbox {
 public:
  void push(T item) { items_.push_back(std::move(item)); }
  std::optional<T> poll() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

 private:
  std::deque<T> items_;
};

}  // namespace rubato::proto
