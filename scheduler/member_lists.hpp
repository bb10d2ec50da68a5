// scheduler/member_lists.hpp - for each server: the member list that it has acknowledged, the lists
// on their way to it, and when the next list may go.
// Every change of membership makes a new list with a number, its epoch. A list goes out at once
// while few entries are on their way to that server. Else it waits for an acknowledgement, and
// changes that wait together go as one list. So n workers that join at once cost a server a few
// lists, not n lists of up to n entries.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/time.hpp"

namespace rubato::scheduler {

class MemberLists {
 public:
  // One more server, numbered from 0; it has acknowledged nothing.
  void add_server() { servers_.emplace_back(); }
  void forget_servers() { servers_.clear(); }

  // Another process has taken the place of server `index`: it has acknowledged nothing.
  void on_replaced(std::uint32_t index, Instant now);

  // A journal may have lost its end, so servers may know lists that this one does not: the next one
  // has an epoch beyond theirs. Nothing is sent for that.
  void on_return(Instant now);
  // Membership changed: a new epoch.
  void on_change(Instant now);
  // Server `index` has acknowledged a list; if that is one that nobody here knows, a new one goes
  // to all.
  void on_ack(std::uint32_t index, std::uint64_t epoch, Instant now);
  // Returns: true when it is time to repeat. Then the newest list is due to every server that has
  // not acknowledged it, whatever is on its way.
  bool on_wakeup(Instant now);
  // The run is over: no list is repeated.
  void stop() { sent_.reset(); }

  // Returns: the servers to which the newest list goes now. It counts as sent to them.
  // `entries`: the members in that list.
  std::vector<std::uint32_t> poll_due(std::size_t entries);
  std::optional<Instant> poll_wakeup() const;

  std::uint64_t epoch() const { return epoch_; }
  // The newest epoch that every server has acknowledged.
  std::uint64_t acked() const;

 private:
  struct List {
    std::uint64_t epoch = 0;
    std::size_t entries = 0;
  };
  struct Server {
    std::uint64_t acked = 0;
    std::uint64_t sent = 0;
    std::deque<List> under_way;  // ascending
    std::size_t entries = 0;     // of all lists under way
  };
  std::vector<Server> servers_;
  std::uint64_t epoch_ = 0;
  // The last change or repetition; empty once every server has acknowledged the newest list.
  std::optional<Instant> sent_;
};

}  // namespace rubato::scheduler
