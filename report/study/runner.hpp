// report/study/runner.hpp - many independent runs on several threads, each run on one.
// Threads: `work` is called by all of them at once, `done` by one at a time; the caller waits.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace rubato::report {

// Runs jobs 0 to count - 1 in that order, `threads` at a time.
// work(job, stop): computes one and returns a Result; `stop` asks it to give up, and what it then
// returns is not used. done(job, value): takes what it has computed, and returns Result<void>.
// Returns: the first error, after which no job begins; Stopped when `stop` came first.
template <class Work, class Done>
[[nodiscard]] Result<void> run_jobs(std::size_t count, int threads, const std::stop_token& stop,
                                    const Work& work, const Done& done) {
  std::stop_source ours;
  const std::stop_callback follow(stop, [&ours] { ours.request_stop(); });
  std::mutex mutex;  // guards all below and calls of done()
  std::size_t next = 0;
  std::size_t finished = 0;
  std::optional<Error> failure;
  const auto fail_with = [&](Error error) {
    if (!failure) failure = std::move(error);
    ours.request_stop();
  };
  const auto take = [&]() -> std::optional<std::size_t> {
    const std::scoped_lock lock(mutex);
    if (ours.stop_requested() || next == count) return std::nullopt;
    return next++;
  };
  const auto loop = [&] {
    while (const auto job = take()) {
      auto result = work(*job, ours.get_token());
      const std::scoped_lock lock(mutex);
      if (ours.stop_requested()) return;
      if (!result) return fail_with(std::move(result.error()));
      if (auto kept = done(*job, std::move(*result)); !kept)
        return fail_with(std::move(kept.error()));
      ++finished;
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads; ++i) helpers.emplace_back(loop);
    loop();
  }
  if (failure) return tl::unexpected<Error>(std::move(*failure));
  if (finished == count) return {};
  return fail(ErrorCode::Stopped, "interrupted; the same command continues from here");
}

}  // namespace rubato::report
