// scheduler/status_desk.hpp - answers whoever asks how the run stands, and knows what only such an
// answer says of a worker: its rates, and when it was heard last.
// Pure. Threads: one owner. Errors: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato::scheduler {

// Rates are measured over so long, at least.
inline constexpr Duration kPaceWindow = Duration::from_seconds(5);
// A flood of questions costs one answer made and this many sent in each interval.
inline constexpr Duration kStatusEvery = Duration::from_ms(500);
inline constexpr std::size_t kStatusAnswersMax = 16;

// So many bytes or more: spaces behind a text are no part of its JSON.
inline std::string filled(std::string text, std::size_t bytes) {
  text.resize(std::max(text.size(), bytes), ' ');
  return text;
}

class StatusDesk {
 public:
  // Steps, commits and bytes of a worker a second, from one mark to the next.
  struct Pace {
    double steps = 0, commits = 0, up = 0, down = 0;
  };

  void on_join(Instant now) { workers_.push_back({.heard = now, .since = now}); }
  void on_heard(Instant now, WorkerId worker) { workers_[worker.value].heard = now; }
  void on_progress(Instant now, WorkerId worker, const proto::Progress& progress);

  const Pace& pace(WorkerId worker) const { return workers_[worker.value].pace; }
  double heard_seconds_ago(Instant now, WorkerId worker) const {
    return std::max(0.0, (now - workers_[worker.value].heard).seconds());
  }

  // Somebody asks. `make()`: the text as it is now; it is called at most once each kStatusEvery.
  // Returns: the answer. Nothing: too many have asked.
  template <class Make>
  std::optional<proto::Status> answer(Instant now, const Make& make) {
    if (!made_ || now - *made_ >= kStatusEvery) {
      status_ = {make()};
      made_ = now;
      answers_ = 0;
    }
    if (answers_++ >= kStatusAnswersMax) return std::nullopt;
    return status_;
  }

 private:
  struct Worker {
    Instant heard;
    Instant since;                                           // the mark
    std::uint64_t steps = 0, commits = 0, up = 0, down = 0;  // at the mark
    Pace pace = {};
  };
  std::vector<Worker> workers_;  // by number
  proto::Status status_;         // the last answer
  std::optional<Instant> made_;
  std::size_t answers_ = 0;  // with it
};

inline void StatusDesk::on_progress(Instant now, WorkerId worker, const proto::Progress& progress) {
  Worker& its = workers_[worker.value];
  if (now - its.since < kPaceWindow) return;
  const double seconds = (now - its.since).seconds();
  const auto rate = [seconds](std::uint64_t& mark, std::uint64_t count) {
    const double grown = static_cast<double>(count - std::min(count, mark));
    mark = count;
    return grown / seconds;
  };
  its.pace = {.steps = rate(its.steps, progress.steps),
              .commits = rate(its.commits, progress.commits),
              .up = rate(its.up, progress.bytes_up),
              .down = rate(its.down, progress.bytes_down)};
  its.since = now;
}

}  // namespace rubato::scheduler
