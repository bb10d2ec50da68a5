// proto/node_log.hpp - what a node's core has to say in its log. Notices of the scheduler are among
// it: so many lines a minute, and how many were left out. A scheduler that lies fills no disk.
// Pure. Threads: one owner. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "proto/outbox.hpp"

namespace rubato::proto {

class NodeLog : public Outbox<std::string> {
 public:
  static constexpr std::uint64_t kNoticesMax = 30;
  static constexpr Duration kNoticesIn = Duration::from_seconds(60);

  // An empty one is no line.
  void push_notice(Instant now, const std::string& text) {
    if (text.empty()) return;
    const bool another_minute = !since_ || now - *since_ >= kNoticesIn;
    const std::uint64_t left_out =
        another_minute && notices_ > kNoticesMax ? notices_ - kNoticesMax : 0;
    if (another_minute) {
      since_ = now;
      notices_ = 0;
    }
    if (++notices_ > kNoticesMax) return;
    push(left_out == 0 ? text
                       : text + " (and " + std::to_string(left_out) + " more notices before it)");
  }

 private:
  std::optional<Instant> since_;  // the minute that counts now
  std::uint64_t notices_ = 0;     // in it, said or left out
};

}  // namespace rubato::proto
