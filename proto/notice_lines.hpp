// proto/notice_lines.hpp - the notices of a scheduler as lines of a node's log: so many a minute,
// and how many were left out. A scheduler that lies fills no disk. Pure. Threads: one owner.
// Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.hpp"

namespace rubato::proto {

class NoticeLines {
 public:
  static constexpr std::uint64_t kLinesMax = 30;
  static constexpr Duration kInterval = Duration::from_seconds(60);

  // Returns: the line to say, if any.
  std::optional<std::string> take(Instant now, const std::string& text) {
    if (text.empty()) return std::nullopt;
    std::string line = text;
    if (!since_ || now - *since_ >= kInterval) {
      if (said_ > kLinesMax)
        line += " (and " + std::to_string(said_ - kLinesMax) + " more notices before it)";
      since_ = now;
      said_ = 0;
    }
    return ++said_ <= kLinesMax ? std::optional(line) : std::nullopt;
  }

 private:
  std::optional<Instant> since_;  // the minute that counts now
  std::uint64_t said_ = 0;        // in it, said or left out
};

}  // namespace rubato::proto
