// report/live/live_board.hpp - where a run leaves what its live page shows, and readers take it
// from. The run hands over data and goes on; text is made of them when somebody reads. Threads: one
// writes (or several, one at a time), any number read, and one of its own makes the texts. Memory:
// the newest data and the newest text; a reader keeps at most one older text alive. Errors: none.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/time.hpp"

namespace rubato::report {

// A thread that makes large texts for others, one after the other. glibc gives threads up to eight
// arenas a core. Texts made by each thread that serves would fill all of them, and stay there.
class TextMaker {
 public:
  TextMaker() : thread_([this](const std::stop_token& stop) { work(stop); }) {}

  // Returns: what `make` returns, called in that thread. It must not call this again.
  template <class Make>
  auto operator()(Make make) {
    const auto task = std::make_shared<std::packaged_task<decltype(make())()>>(std::move(make));
    auto made = task->get_future();
    {
      const std::scoped_lock lock(mutex_);
      tasks_.push_back([task] { (*task)(); });
    }
    news_.notify_one();
    return made.get();
  }

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;  // guards the next two
  std::condition_variable_any news_;
  std::deque<std::function<void()>> tasks_;
  std::jthread thread_;  // last: it uses what is above
};

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
  // Makes the text of data that it holds and that nobody changes. Called by the thread of maker().
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
  // The thread that makes the texts.
  TextMaker& maker() { return maker_; }

 private:
  mutable std::mutex mutex_;  // guards the next four; held for moments only
  std::condition_variable news_;
  Render newest_;
  std::uint64_t number_ = 1;
  bool ended_ = false;

  std::mutex rendering_;  // guards the next one; no writer takes it
  std::shared_ptr<const LiveView> view_;

  Instant next_;  // the writer's own
  TextMaker maker_;
};

}  // namespace rubato::report
