// base/trace.hpp - what a process does when: spans of time, written as Chrome trace events (a JSON
// array), which ui.perfetto.dev and chrome://tracing open. docs/profiling.md tells how to read it.
// A lane is one row of the picture and has one recording thread; a span costs two clock readings
// and a store into the lane's ring, no lock and no allocation. A thread of Trace turns spans into
// text and flushes ten times a second or more: a process that is killed leaves a readable file.
// Off is a null lane: one branch. Units: Instants of this process, written in microseconds.
// Limits: kTraceRingEvents, kTraceFileBytesMax; what does not fit is dropped and counted.
// Errors: Io when the file cannot be opened or written.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace rubato {

inline constexpr std::uint64_t kTraceRingEvents = 4096;  // a lane, between two flushes
inline constexpr std::uint64_t kTraceFileBytesMax = 512ull << 20;

enum class Span : std::uint8_t {
  Step,         // a mini-batch, as long as the worker's device takes for it
  Compute,      // its arithmetic
  Take,         // the update taken out of the device
  Load,         // parameters put into the device
  Communicate,  // a commit's way there and back, waiting included
  Wait,         // the part of it that a gate held the commit for other workers
  Serialize,    // a message encoded, checksums included
  Send,         // a message handed to the transport, Serialize included
  Receive,      // a message taken from the transport and decoded
  Hold,         // a chunk of a commit that no parameter took yet
  Apply,        // a chunk that completed a commit (or a round), added to the parameters
  Gather,       // a chunk of parameters put in its place
  Control,      // any other message handled
  Evaluate,     // parameters measured on held-out data
};
const char* span_name(Span span);  // "apply"

struct TraceArgs {
  static constexpr std::uint32_t kNobody = ~0u;
  std::uint32_t worker = kNobody;
  std::uint64_t sequence = 0;     // of the commit; 0: none
  std::uint64_t amount = 0;       // bytes, elements... as the span has it; 0: none
  const char* message = nullptr;  // its kind. Lifetime: static
};

// Where an arrow of one commit and shard passes. Requires: a span of the same lane begins there.
enum class FlowPoint : std::uint8_t { Start, Step, End };

// Threads: span() and flow() from one thread; the rest is Trace's.
class TraceLane {
 public:
  TraceLane(class Trace& trace, std::uint32_t pid, std::uint32_t tid);
  // Whether what is said is recorded: see Trace::record.
  bool records() const;
  void span(Span span, Instant begin, Instant end, const TraceArgs& args = {});
  void flow(FlowPoint point, Instant at, std::uint32_t worker, std::uint64_t sequence,
            std::uint32_t shard);

 private:
  friend class Trace;
  enum class Kind : std::uint8_t { Span, FlowStart, FlowStep, FlowEnd };
  struct Event {
    Instant begin;
    Instant end;
    TraceArgs args;
    std::uint32_t shard = 0;
    Span span = Span::Step;
    Kind kind = Kind::Span;
  };
  void push(const Event& event);

  Trace& trace_;
  std::uint32_t pid_;
  std::string head_;  // of each event as text
  std::vector<Event> ring_;
  alignas(64) std::atomic<std::uint64_t> pushed_{0};   // by the recording thread
  std::atomic<std::uint64_t> dropped_{0};              // by the recording thread
  alignas(64) std::atomic<std::uint64_t> drained_{0};  // by Trace's thread
};

// One process of the picture; empty: nothing is recorded. Lifetime: that of its Trace.
class TraceProcess {
 public:
  TraceProcess() = default;
  explicit operator bool() const { return trace_ != nullptr; }
  // The lane of this name, made at its first mention; null when nothing is recorded. Any thread.
  TraceLane* lane(const std::string& name) const;
  // See Trace::align. Does nothing when nothing is recorded. Any thread.
  void align(Duration offset, Duration error) const;

 private:
  friend class Trace;
  TraceProcess(Trace* trace, std::uint32_t pid) : trace_(trace), pid_(pid) {}
  Trace* trace_ = nullptr;
  std::uint32_t pid_ = 0;
};

enum class TraceClock {
  Own,        // times are written as they are: virtual time, or the scheduler's process
  Scheduler,  // nothing is written before align(), except at the end
};

// The file. What was at its path stays until a process is there to be recorded.
// Lifetime: longer than every thread that records into it.
class Trace {
 public:
  // BadInput when the file cannot be made.
  [[nodiscard]] static Result<std::unique_ptr<Trace>> open(const std::string& path,
                                                           TraceClock clock);
  struct Opened;  // what open() alone can make
  explicit Trace(Opened opened);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  TraceProcess process(const std::string& name);
  // From now on `offset` is added to every time; it is off by at most `error`. Any thread.
  void align(Duration offset, Duration error);

  // Whether lanes record; at first they do. What recording costs can be told within one run, whose
  // memory and threads stay where they are (bench/profile_overhead.cpp). Any thread.
  void record(bool on) { records_.store(on, std::memory_order_relaxed); }

  // Writes what was recorded so far. Requires: the caller is the only thread that records.
  void flush();
  // Writes what was recorded and frees every lane, for a run that is over while others follow.
  // Requires: nobody records into a lane of before any more.
  void free_lanes();

  struct Totals {
    std::uint64_t written = 0;
    std::uint64_t dropped = 0;
  };
  // Ends the file. Requires: no thread records any more. The destructor does it otherwise.
  Result<Totals> finish();

 private:
  friend class TraceProcess;
  friend class TraceLane;
  TraceLane* lane(std::uint32_t pid, const std::string& name);
  void work(std::stop_token stop);
  void flush_soon();
  void drain(bool last);
  void drain_lane(TraceLane& lane, Duration offset);
  void append_event(const TraceLane& lane, const TraceLane::Event& event, Duration offset);
  void append_metadata(std::uint32_t pid, std::uint32_t tid, const char* what,
                       const std::string& args);
  void write_clock();
  void write_out();

  struct NamedLane {
    std::string name;
    std::unique_ptr<TraceLane> lane;
  };
  std::optional<WholeFile> file_;  // nothing: finished
  std::atomic<bool> records_{true};
  std::atomic<bool> aligned_;
  std::atomic<std::int64_t> offset_ns_{0};
  std::atomic<std::int64_t> error_ns_{0};
  std::atomic<bool> flush_soon_{false};
  std::mutex mutex_;  // guards all that follows
  std::condition_variable_any wake_;
  std::vector<std::string> processes_;  // pid - 1 -> name
  std::vector<NamedLane> lanes_;        // in use
  std::uint32_t lane_count_ = 0;        // in use and freed; the last one's tid
  std::string text_;                    // formatted, not written yet
  bool empty_ = true;                   // nothing was formatted yet: the next event has no comma
  std::uint64_t file_bytes_ = 0;
  std::int64_t written_error_ns_ = -1;  // of the last clock line
  Totals totals_;
  std::jthread thread_;  // last: it uses the members above
};

inline bool TraceLane::records() const {
  return trace_.records_.load(std::memory_order_relaxed);
}

// Of a trace that may be null: then nothing is recorded.
inline TraceProcess trace_process(Trace* trace, const std::string& name) {
  return trace ? trace->process(name) : TraceProcess();
}

// Records a span from its construction to its end.
class TraceSpan {
 public:
  TraceSpan(TraceLane* lane, Span span, const TraceArgs& args = {})
      : lane_(lane && lane->records() ? lane : nullptr), span_(span), args_(args) {
    if (lane_) begin_ = steady_now();
  }
  ~TraceSpan() {
    if (lane_) lane_->span(span_, begin_, steady_now(), args_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceLane* lane_;
  Span span_;
  TraceArgs args_;
  Instant begin_;
};

}  // namespace rubato
