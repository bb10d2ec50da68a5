#include "base/trace.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/log.hpp"

namespace rubato {
namespace {

constexpr auto kFlushEvery = std::chrono::milliseconds(100);

struct SpanText {
  const char* name;
  const char* unit;  // of TraceArgs::amount
};

constexpr SpanText kSpans[] = {
    {"step", "samples"},      {"compute", "samples"},  {"take", "elements"},   {"load", "elements"},
    {"communicate", "steps"}, {"wait", "ns"},          {"serialize", "bytes"}, {"send", "bytes"},
    {"receive", "bytes"},     {"hold", "bytes"},       {"apply", "bytes"},     {"gather", "bytes"},
    {"control", "bytes"},     {"evaluate", "samples"},
};

constexpr SpanText text_of(Span span) {
  return kSpans[static_cast<std::size_t>(span)];
}

// One event as text, by hand and not by a format string: this is most of what profiling costs.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): what is read of it, was put there
class EventText {
 public:
  void put(std::string_view text) {
    std::memcpy(end_, text.data(), text.size());
    end_ += text.size();
  }
  void put(std::uint64_t value) { end_ = std::to_chars(end_, bytes_.end(), value).ptr; }
  // Nanoseconds as microseconds, with all digits.
  void put_us(std::int64_t ns) {
    const auto bits = static_cast<std::uint64_t>(ns);
    const std::uint64_t size = ns < 0 ? 0 - bits : bits;
    if (ns < 0) put("-");
    put(size / 1000);
    const std::uint64_t rest = size % 1000;
    const char fraction[] = {'.', static_cast<char>('0' + rest / 100),
                             static_cast<char>('0' + rest / 10 % 10),
                             static_cast<char>('0' + rest % 10)};
    put({fraction, sizeof fraction});
  }
  void put_args(std::string_view unit, const TraceArgs& args) {
    std::string_view before = ",\"args\":{\"";
    const auto key = [&](std::string_view name) {
      put(std::exchange(before, ",\""));
      put(name);
      put("\":");
    };
    const auto number = [&](std::string_view name, std::uint64_t value) {
      key(name);
      put(value);
    };
    if (args.message) {
      key("message");
      put("\"");
      put(args.message);
      put("\"");
    }
    if (args.worker != TraceArgs::kNobody) number("worker", args.worker);
    if (args.sequence != 0) number("sequence", args.sequence);
    if (args.amount != 0) number(unit, args.amount);
    if (before == ",\"") put("}");
  }
  std::string_view text() const { return {bytes_.data(), end_}; }

 private:
  std::array<char, 512> bytes_;  // twice the longest event: all names in it are ours
  char* end_ = bytes_.data();
};

}  // namespace

const char* span_name(Span span) {
  return text_of(span).name;
}

TraceLane::TraceLane(Trace& trace, std::uint32_t pid, std::uint32_t tid)
    : trace_(trace),
      pid_(pid),
      head_(fmt::format("{{\"pid\":{},\"tid\":{},\"name\":\"", pid, tid)),
      ring_(kTraceRingEvents) {}

void TraceLane::push(const Event& event) {
  if (!records()) return;
  const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
  if (pushed - drained_.load(std::memory_order_acquire) == ring_.size()) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ring_[pushed % kTraceRingEvents] = event;
  pushed_.store(pushed + 1, std::memory_order_release);
  if (pushed % (kTraceRingEvents / 2) == kTraceRingEvents / 2 - 1) trace_.flush_soon();
}

void TraceLane::span(Span span, Instant begin, Instant end, const TraceArgs& args) {
  push({.begin = begin, .end = end, .args = args, .shard = 0, .span = span, .kind = Kind::Span});
}

void TraceLane::flow(FlowPoint point, Instant at, std::uint32_t worker, std::uint64_t sequence,
                     std::uint32_t shard) {
  static constexpr Kind kKinds[] = {Kind::FlowStart, Kind::FlowStep, Kind::FlowEnd};
  push({.begin = at,
        .end = at,
        .args = {.worker = worker, .sequence = sequence},
        .shard = shard,
        .span = Span::Step,
        .kind = kKinds[static_cast<std::size_t>(point)]});
}

TraceLane* TraceProcess::lane(const std::string& name) const {
  return trace_ ? trace_->lane(pid_, name) : nullptr;
}

void TraceProcess::align(Duration offset, Duration error) const {
  if (trace_) trace_->align(offset, error);
}

struct Trace::Opened {
  WholeFile file;
  TraceClock clock;
};

Result<std::unique_ptr<Trace>> Trace::open(const std::string& path, TraceClock clock) {
  auto file = WholeFile::open(path);
  if (!file) return fail(ErrorCode::BadInput, std::move(file.error().message));
  return std::make_unique<Trace>(Opened{std::move(*file), clock});
}

Trace::Trace(Opened opened)
    : file_(std::move(opened.file)),
      aligned_(opened.clock == TraceClock::Own),
      text_("[\n"),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

Trace::~Trace() {
  if (const auto done = finish(); !done) log_failure(done.error().message);
}

TraceProcess Trace::process(const std::string& name) {
  const std::lock_guard lock(mutex_);
  processes_.push_back(name);
  const auto pid = static_cast<std::uint32_t>(processes_.size());
  append_metadata(pid, 0, "process_name", fmt::format("\"name\":{}", json_text(Json(name))));
  append_metadata(pid, 0, "process_sort_index", fmt::format("\"sort_index\":{}", pid));
  return {this, pid};
}

TraceLane* Trace::lane(std::uint32_t pid, const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (const auto& known : lanes_)
    if (known.lane->pid_ == pid && known.name == name) return known.lane.get();
  const std::uint32_t tid = ++lane_count_;
  append_metadata(pid, tid, "thread_name", fmt::format("\"name\":{}", json_text(Json(name))));
  append_metadata(pid, tid, "thread_sort_index", fmt::format("\"sort_index\":{}", tid));
  lanes_.push_back({name, std::make_unique<TraceLane>(*this, pid, tid)});
  return lanes_.back().lane.get();
}

void Trace::align(Duration offset, Duration error) {
  offset_ns_.store(offset.ns, std::memory_order_relaxed);
  error_ns_.store(error.ns, std::memory_order_relaxed);
  aligned_.store(true, std::memory_order_release);
}

void Trace::append_metadata(std::uint32_t pid, std::uint32_t tid, const char* what,
                            const std::string& args) {
  text_ += empty_ ? "" : ",\n";
  empty_ = false;
  fmt::format_to(std::back_inserter(text_),
                 R"({{"pid":{},"tid":{},"ph":"M","name":"{}","args":{{{}}}}})", pid, tid, what,
                 args);
}

void Trace::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kFlushEvery, [this] { return flush_soon_.load(); });
    flush_soon_.store(false);
    drain(false);
  }
}

// Without the mutex, which a recording thread must not wait for: at worst the flush is a regular
// one.
void Trace::flush_soon() {
  flush_soon_.store(true);
  wake_.notify_one();
}

void Trace::drain(bool last) {
  if (last || aligned_.load(std::memory_order_acquire)) {
    const Duration offset{offset_ns_.load(std::memory_order_relaxed)};
    write_clock();
    for (const auto& [name, lane] : lanes_) drain_lane(*lane, offset);
  }
  write_out();
}

// How well the clock is known, again whenever that has changed.
void Trace::write_clock() {
  const std::int64_t error = error_ns_.load(std::memory_order_relaxed);
  if (processes_.empty() || error == written_error_ns_) return;
  written_error_ns_ = error;
  for (std::uint32_t pid = 1; pid <= processes_.size(); ++pid)
    append_metadata(pid, 0, "clock",
                    fmt::format("\"aligned\":{},\"clock_offset_ns\":{},\"error_ns\":{}",
                                aligned_.load(std::memory_order_relaxed),
                                offset_ns_.load(std::memory_order_relaxed), error));
}

void Trace::drain_lane(TraceLane& lane, Duration offset) {
  const std::uint64_t end = lane.pushed_.load(std::memory_order_acquire);
  std::uint64_t at = lane.drained_.load(std::memory_order_relaxed);
  for (; at != end; ++at) {
    if (file_bytes_ + text_.size() > kTraceFileBytesMax) {
      ++totals_.dropped;
      continue;
    }
    append_event(lane, lane.ring_[at % kTraceRingEvents], offset);
    ++totals_.written;
  }
  lane.drained_.store(end, std::memory_order_release);
}

void Trace::append_event(const TraceLane& lane, const TraceLane::Event& event, Duration offset) {
  const bool is_span = event.kind == TraceLane::Kind::Span;
  EventText text;
  text.put(empty_ ? "" : ",\n");
  empty_ = false;
  text.put(lane.head_);
  text.put(is_span ? text_of(event.span).name : "commit");
  text.put("\",\"ph\":\"");
  text.put({&"Xstf"[static_cast<std::size_t>(event.kind)], 1});
  text.put("\",\"ts\":");
  text.put_us((event.begin + offset).ns);
  if (is_span) {
    text.put(",\"dur\":");
    text.put_us((event.end - event.begin).ns);
    text.put_args(text_of(event.span).unit, event.args);
    text.put("}");
  } else {
    text.put(",\"cat\":\"commit\",\"bp\":\"e\",\"id\":\"");
    text.put(event.args.worker);
    text.put(".");
    text.put(event.args.sequence);
    text.put(".");
    text.put(event.shard);
    text.put("\"}");
  }
  text_ += text.text();
}

void Trace::write_out() {
  if (text_.empty() || empty_) return;
  file_bytes_ += text_.size();
  file_->write(text_);
  file_->show();
  text_.clear();
}

void Trace::flush() {
  const std::lock_guard lock(mutex_);
  drain(true);
}

void Trace::free_lanes() {
  const std::lock_guard lock(mutex_);
  drain(true);
  for (const auto& [name, lane] : lanes_) totals_.dropped += lane->dropped_.load();
  lanes_.clear();
}

Result<Trace::Totals> Trace::finish() {
  if (!file_) return totals_;
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  free_lanes();
  const std::lock_guard lock(mutex_);
  WholeFile file = std::move(*file_);
  file_.reset();
  if (empty_) return totals_;  // nobody was recorded: what was there stays
  append_metadata(1, 0, "totals",
                  fmt::format("\"written\":{},\"dropped\":{}", totals_.written, totals_.dropped));
  file.write(text_ + "\n]\n");
  if (const auto done = file.finish(); !done)
    return fail(ErrorCode::Io,
                fmt::format("{}; not all of the trace is there", done.error().message));
  return totals_;
}

}  // namespace rubato
