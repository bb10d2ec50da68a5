// server/member_lists.hpp - which member list each server has in force, which are on their way to
// it, and when the next may go.
// Every change of membership is a numbered list (an epoch). A list goes out at once while few
// entries are on their way to that server; else it waits for an acknowledgement, and changes that
// wait together go as one list. So n workers that join at once cost a server a few lists, not n
// lists of up to n entries, and small clusters send each list at once.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/time.hpp"

namespace rubato::server {

class MemberLists {
 public:
  // One more server, numbered from 0; it has acknowledged nothing.
  void add_server() { servers_.emplace_back(); }

  // Membership changed: a new epoch.
  void on_change(Instant now);
  // Server `index` has put a list into force.
  void on_ack(std::uint32_t index, std::uint64_t epoch);
  // True when the lists not acknowledged are due again: all servers that lack the newest one take
  // it now, whatever was on its way.
  bool on_wakeup(Instant now);
  // No list is to be sent again: the run is over.
  void stop() { sent_.reset(); }

  // The servers to which the newest list, of `entries` members, is to go now; they count as sent.
  std::vector<std::uint32_t> poll_due(std::size_t entries);
  std::optional<Instant> poll_wakeup() const;

  std::uint64_t epoch() const { return epoch_; }
  // The newest epoch that every server has in force.
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
    std::size_t entries = 0;     // of all those
  };
  std::vector<Server> servers_;
  std::uint64_t epoch_ = 0;
  std::optional<Instant> sent_;  // the last change or repetition, until all have acknowledged
};

}  // namespace rubato::server
