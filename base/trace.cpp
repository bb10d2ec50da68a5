#include "base/trace.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>

#include "base/check.hpp"
#include "base/log.hpp"

namespace rubato {
namespace {

constexpr auto kFlushEvery = std::chrono::milliseconds(10);

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

// As the inside of a JSON string.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

// Nanoseconds as microseconds, with all digits.
void append_us(std::string& text, std::int64_t ns) {
  const std::uint64_t size =
      ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  if (ns < 0) text += '-';
  fmt::format_to(std::back_inserter(text), FMT_COMPILE("{}.{:03}"), size / 1000, size % 1000);
}

void append_args(std::string& text, const char* unit, const TraceArgs& args) {
  const auto number = [&text](const char* name, std::uint64_t value) {
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("{}\"{}\":{}"),
                   text.back() == '{' ? "" : ",", name, value);
  };
  text += ",\"args\":{";
  if (args.message)
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("\"message\":\"{}\""), args.message);
  if (args.worker != TraceArgs::kNobody) number("worker", args.worker);
  if (args.sequence != 0) number("sequence", args.sequence);
  if (args.amount != 0) number(unit, args.amount);
  text += '}';
}

}  // namespace

const char* span_name(Span span) {
  return text_of(span).name;
}

TraceLane::TraceLane(std::uint32_t pid, std::uint32_t tid)
    : pid_(pid), tid_(tid), ring_(kTraceRingEvents) {}

void TraceLane::push(const Event& event) {
  const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
  if (pushed - drained_.load(std::memory_order_acquire) == ring_.size()) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ring_[pushed % kTraceRingEvents] = event;
  pushed_.store(pushed + 1, std::memory_order_release);
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
  std::FILE* file;
  std::string path;
  TraceClock clock;
};

Result<std::unique_ptr<Trace>> Trace::open(const std::string& path, TraceClock clock) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  return std::make_unique<Trace>(Opened{file, path, clock});
}

Trace::Trace(Opened opened)
    : path_(std::move(opened.path)),
      file_(opened.file),
      aligned_(opened.clock == TraceClock::Own),
      text_("[\n"),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

Trace::~Trace() {
  if (const auto done = finish(); !done) log_warning(done.error().message);
}

TraceProcess Trace::process(const std::string& name) {
  const std::lock_guard lock(mutex_);
  processes_.push_back(name);
  const auto pid = static_cast<std::uint32_t>(processes_.size());
  append_metadata(pid, 0, "process_name", fmt::format("\"name\":\"{}\"", escaped(name)));
  append_metadata(pid, 0, "process_sort_index", fmt::format("\"sort_index\":{}", pid));
  return {this, pid};
}

TraceLane* Trace::lane(std::uint32_t pid, const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (const auto& known : lanes_)
    if (known.lane->pid_ == pid && known.name == name) return known.lane.get();
  const auto tid = static_cast<std::uint32_t>(lanes_.size() + 1);
  append_metadata(pid, tid, "thread_name", fmt::format("\"name\":\"{}\"", escaped(name)));
  append_metadata(pid, tid, "thread_sort_index", fmt::format("\"sort_index\":{}", tid));
  lanes_.push_back({name, std::make_unique<TraceLane>(pid, tid)});
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
    wake_.wait_for(lock, stop, kFlushEvery, [] { return false; });
    drain(false);
  }
}

void Trace::drain(bool last) {
  if (last || aligned_.load(std::memory_order_acquire)) {
    const Duration offset{offset_ns_.load(std::memory_order_relaxed)};
    write_clock();
    for (const auto& [name, lane] : lanes_) drain_lane(*lane, offset, text_);
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

void Trace::drain_lane(TraceLane& lane, Duration offset, std::string& text) {
  const std::uint64_t end = lane.pushed_.load(std::memory_order_acquire);
  std::uint64_t at = lane.drained_.load(std::memory_order_relaxed);
  for (; at != end; ++at) {
    if (file_bytes_ + text.size() > kTraceFileBytesMax) {
      ++totals_.dropped;
      continue;
    }
    const auto& event = lane.ring_[at % kTraceRingEvents];
    const bool is_span = event.kind == TraceLane::Kind::Span;
    const auto out = std::back_inserter(text);
    fmt::format_to(out, FMT_COMPILE(R"({}{{"pid":{},"tid":{},"ph":"{}","name":"{}","ts":)"),
                   empty_ ? "" : ",\n", lane.pid_, lane.tid_,
                   "Xstf"[static_cast<std::size_t>(event.kind)],
                   is_span ? text_of(event.span).name : "commit");
    empty_ = false;
    append_us(text, (event.begin + offset).ns);
    if (is_span) {
      text += ",\"dur\":";
      append_us(text, (event.end - event.begin).ns);
      append_args(text, text_of(event.span).unit, event.args);
      text += '}';
    } else {
      fmt::format_to(out, FMT_COMPILE(R"(,"cat":"commit","bp":"e","id":"{}.{}.{}"}})"),
                     event.args.worker, event.args.sequence, event.shard);
    }
    ++totals_.written;
  }
  lane.drained_.store(end, std::memory_order_release);
}

void Trace::write_out() {
  if (text_.empty()) return;
  file_bytes_ += text_.size();
  if (std::fwrite(text_.data(), 1, text_.size(), file_) != text_.size() || std::fflush(file_) != 0)
    failed_ = true;
  text_.clear();
}

Result<Trace::Totals> Trace::finish() {
  if (!file_) return totals_;
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  drain(true);
  for (const auto& [name, lane] : lanes_) totals_.dropped += lane->dropped_.load();
  append_metadata(1, 0, "totals",
                  fmt::format("\"written\":{},\"dropped\":{}", totals_.written, totals_.dropped));
  text_ += "\n]\n";
  write_out();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) failed_ = true;
  if (failed_) return fail(ErrorCode::Io, path_ + ": not all of the trace could be written");
  return totals_;
}

}  // namespace rubato
