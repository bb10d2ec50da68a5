#include "report/live/live_board.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rubato::report {
namespace {

constexpr Duration kEvery = Duration::from_seconds(1);
constexpr double kCostFactor = 50;

}  // namespace

void TextMaker::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (news_.wait(lock, stop, [&] { return !tasks_.empty(); })) {
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

LiveBoard::LiveBoard(Render first) : newest_(std::move(first)) {}

void LiveBoard::offer(const std::function<Render()>& take) {
  const Instant begin = steady_now();
  if (begin < next_) return;
  publish(take());
  const Instant end = steady_now();
  next_ = end + std::max(kEvery, (end - begin) * kCostFactor);
}

void LiveBoard::publish(Render render) {
  {
    const std::scoped_lock lock(mutex_);
    newest_.swap(render);
    ++number_;
  }
  news_.notify_all();
}

void LiveBoard::end() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  news_.notify_all();
}

bool LiveBoard::ended() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

std::shared_ptr<const LiveView> LiveBoard::view() {
  const std::scoped_lock one_renders(rendering_);
  std::uint64_t number = 0;
  Render render;
  {
    const std::scoped_lock lock(mutex_);
    number = number_;
    if (!view_ || view_->number != number) render = newest_;
  }
  if (render) view_ = std::make_shared<const LiveView>(LiveView{number, maker_(render)});
  return view_;
}

std::shared_ptr<const LiveView> LiveBoard::wait_for(std::uint64_t number, Duration patience) {
  {
    std::unique_lock lock(mutex_);
    const auto newer = [&] { return number_ > number; };
    news_.wait_for(lock, std::chrono::nanoseconds(patience.ns), [&] { return newer() || ended_; });
    if (!newer()) return nullptr;
  }
  return view();
}

}  // namespace rubato::report
