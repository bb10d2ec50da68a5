// report/live/live_board.hpp - where a run leaves what its live page shows, and readers take it
// from. The run hands over data and goes on; whoever reads first makes text of them. Threads: one
// writes (or several, one at a time), any number read. Memory: the newest data and the newest text;
// a reader keeps at most one older text alive. Errors: none.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/time.hpp"

namespace rubato::report {

struct LiveTexts {
  std::string data;     // JSON of the page, one line
  std::string metrics;  // Prometheus' text format
};

struct LiveView {
  std::uint64_t number = 0;  // grows with the data
  LiveTexts texts;
};

class LiveBoard {
 public:
  // Makes the text of data that it holds and that nobody changes. Called by one thread at a time.
  using Render = std::function<LiveTexts()>;

  explicit LiveBoard(Render first);

  // Calls `take` for the newest data, unless the last data are younger than a second, or than fifty
  // times what it took to take them. So a run spends 2 % of its time here at most.
  void offer(const std::function<Render()>& take);
  // At once.
  void publish(Render render);
  // Nothing follows. Readers still get the last data.
  void end();

  // The newest data as text.
  std::shared_ptr<const LiveView> view();
  // The newest data, once they are newer than `number`; null after `patience` without news, or when
  // nothing follows.
  std::shared_ptr<const LiveView> wait_for(std::uint64_t number, Duration patience);
  bool ended() const;

 private:
  mutable std::mutex mutex_;  // guards the next four; held for moments only
  std::condition_variable news_;
  Render newest_;
  std::uint64_t number_ = 1;
  bool ended_ = false;

  std::mutex rendering_;  // guards the next one; no writer takes it
  std::shared_ptr<const LiveView> view_;

  Instant next_;  // the writer's own
};

}  // namespace rubato::report
