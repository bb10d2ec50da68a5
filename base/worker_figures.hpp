// base/worker_figures.hpp - how a worker has spent its time and what it has sent, since it joined.
// Each figure is one row of kWorkerFigures. The run's record, its log, results.json, status, the
// metrics and the scheduler's journal read the rows; only the wire names each figure itself.
// Plain data. Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.hpp"

namespace rubato {

struct WorkerFigures {
  Duration compute;            // in steps
  Duration wait;               // blocked on other workers: held by a gate
  Duration communicate;        // blocked on links and servers
  std::uint64_t bytes_up = 0;  // on the wire, the worker's side, all frames
  std::uint64_t bytes_down = 0;
  Duration late;  // of `compute`: beyond what the device takes that the worker stands for
  // Of its commits: those that a shard dropped as its sync model says, and the samples of their
  // steps.
  std::uint64_t dropped_commits = 0;
  std::uint64_t dropped_samples = 0;
};

struct WorkerFigure {
  const char* key;   // in results.json and the run log
  const char* name;  // in a status; a metric is rubato_worker_<name>_total
  const char* help;  // of the metric
  // One of the two: a time in seconds, or a number.
  Duration WorkerFigures::*time = nullptr;
  std::uint64_t WorkerFigures::*number = nullptr;
  bool rare = false;  // left out of files where it is 0
};

// The scheduler's journal has them in this order.
inline constexpr WorkerFigure kWorkerFigures[] = {
    {.key = "compute_s",
     .name = "compute_seconds",
     .help = "Time this worker spent in training steps.",
     .time = &WorkerFigures::compute},
    {.key = "wait_s",
     .name = "wait_seconds",
     .help = "Time this worker was blocked on other workers.",
     .time = &WorkerFigures::wait},
    {.key = "communicate_s",
     .name = "communicate_seconds",
     .help = "Time this worker was blocked on links and servers.",
     .time = &WorkerFigures::communicate},
    {.key = "bytes_up",
     .name = "up_bytes",
     .help = "Bytes on the wire from this worker.",
     .number = &WorkerFigures::bytes_up},
    {.key = "bytes_down",
     .name = "down_bytes",
     .help = "Bytes on the wire to this worker.",
     .number = &WorkerFigures::bytes_down},
    {.key = "late_s",
     .name = "late_seconds",
     .help = "Time by which steps took longer than on the device this worker stands for.",
     .time = &WorkerFigures::late,
     .rare = true},
    {.key = "dropped_commits",
     .name = "dropped_commits",
     .help = "Commits of this worker that the sync model did not use.",
     .number = &WorkerFigures::dropped_commits,
     .rare = true},
    {.key = "dropped_samples",
     .name = "dropped_samples",
     .help = "Training samples of these.",
     .number = &WorkerFigures::dropped_samples,
     .rare = true},
};

// As a number of `Json`: seconds of a time.
template <class Json>
Json value_of(const WorkerFigures& figures, const WorkerFigure& row) {
  return row.time ? Json((figures.*row.time).seconds()) : Json(figures.*row.number);
}
// The nanoseconds of a time, or the number.
inline std::uint64_t word_of(const WorkerFigures& figures, const WorkerFigure& row) {
  return row.time ? static_cast<std::uint64_t>((figures.*row.time).ns) : figures.*row.number;
}
inline void set_word(WorkerFigures& figures, const WorkerFigure& row, std::uint64_t word) {
  if (row.time)
    (figures.*row.time).ns = static_cast<std::int64_t>(word);
  else
    figures.*row.number = word;
}

}  // namespace rubato
