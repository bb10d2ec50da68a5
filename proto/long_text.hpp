// proto/long_text.hpp - a text of many bytes that travels in parts, one at a time: the receiver
// says how many bytes it has, and the sender sends what comes then. So a slow link always has a
// word for both sides, and whoever begins anew loses one part at most. Pure. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rubato::proto {

inline constexpr std::size_t kTextPartMax = 64 * 1024;
inline constexpr std::uint64_t kLongTextMax = std::uint64_t{16} << 20;

// One part of a text of `total` bytes.
struct TextPart {
  std::string bytes = {};  // at most kTextPartMax
  std::uint64_t offset = 0;
  std::uint64_t total = 0;
  bool operator==(const TextPart&) const = default;
};

// What comes at `offset`: nothing behind the end.
inline TextPart part_of(std::string_view text, std::uint64_t offset) {
  const std::size_t from = std::min<std::uint64_t>(offset, text.size());
  return {std::string(text.substr(from, kTextPartMax)), from, text.size()};
}

class LongText {
 public:
  // Takes a part that comes next; one at 0 begins a new text. Others change nothing.
  void take(const TextPart& part) {
    if (part.offset == 0) {
      text_.clear();
      total_ = part.total;
    }
    if (part.offset == text_.size() && part.total == total_) text_ += part.bytes;
  }
  bool complete() const { return total_ > 0 && text_.size() == total_; }
  std::uint64_t size() const { return text_.size(); }
  std::uint64_t total() const { return total_; }  // as announced
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::uint64_t total_ = 0;
};

}  // namespace rubato::proto
