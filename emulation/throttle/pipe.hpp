// emulation/throttle/pipe.hpp - one direction of a TCP connection that passes a shaped link: reads
// from its source what the link has room for, and writes to its sink what has arrived. The end of
// the source passes on when all before it has. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "base/time.hpp"
#include "emulation/throttle/shaper.hpp"

namespace rubato::emulation {

// Bytes in the order in which they came.
class ByteQueue {
 public:
  std::size_t size() const { return size_; }
  void push(std::span<const std::byte> bytes) {
    pieces_.emplace_back(bytes.begin(), bytes.end());
    size_ += bytes.size();
  }
  // The first ones that lie together, at most `most`.
  std::span<const std::byte> front(std::size_t most) const {
    const auto whole = std::span(pieces_.front()).subspan(begin_);
    return whole.first(std::min(whole.size(), most));
  }
  void pop(std::size_t bytes) {
    size_ -= bytes;
    begin_ += bytes;
    if (begin_ < pieces_.front().size()) return;
    pieces_.pop_front();
    begin_ = 0;
  }

 private:
  std::deque<std::vector<std::byte>> pieces_;
  std::size_t begin_ = 0;  // of what is left of the first piece
  std::size_t size_ = 0;
};

class Pipe {
 public:
  // Lifetime: of the link, longer than this; of the sockets too, which do not block.
  Pipe(Shaper& link, int source, int sink)
      : link_(link), flow_(link.open()), source_(source), sink_(sink) {}
  ~Pipe() { link_.close(flow_); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool wants_to_read() const { return !ended_ && link_.room(flow_) > 0; }
  bool wants_to_write() const { return full_; }
  void on_writable();
  // Nothing passes before `until`.
  void cut(Instant until) { link_.cut(flow_, until); }

  // Reads what there is room for. Returns: whether there was something.
  bool read(Instant now);
  // Writes what has arrived. Returns: false if an end is dead.
  bool write(Instant now);
  bool empty() const { return bytes_.size() == 0; }
  // The sink was told that no more will come.
  bool over() const { return told_end_; }

 private:
  Shaper& link_;
  const Shaper::Flow flow_;
  const int source_;
  const int sink_;
  ByteQueue bytes_;      // read and not written: in the link, or before it, or behind it
  bool ended_ = false;   // the source says no more
  bool broken_ = false;  // because it is dead
  bool told_end_ = false;
  bool full_ = false;  // the sink takes no more for now
};

}  // namespace rubato::emulation
