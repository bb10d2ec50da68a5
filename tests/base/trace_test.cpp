// Trace files as another JSON reader sees them.
#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/file.hpp"
#include "base/trace.hpp"
#include "base/trace_merge.hpp"

namespace rubato {
namespace {

using Json = nlohmann::json;

// A file name of its own, gone with the test.
class TraceFile {
 public:
  explicit TraceFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("rubato-" + std::to_string(::getpid()) + "-" + name)) {}
  ~TraceFile() { std::filesystem::remove(path_); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  std::string path() const { return path_.string(); }
  Json events() const { return Json::parse(read_file(path()).value()); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

 private:
  std::filesystem::path path_;
};

std::vector<Json> with_phase(const Json& events, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : events)
    if (event.at("ph") == phase) found.push_back(event);
  return found;
}

Json metadata(const Json& events, const std::string& name) {
  Json last;
  for (const Json& event : with_phase(events, "M"))
    if (event.at("name") == name) last = event.at("args");
  return last;
}

TEST_CASE("trace: spans carry their names, times in microseconds and arguments") {
  const TraceFile file("spans");
  auto trace = Trace::open(file.path(), TraceClock::Own).value();
  const TraceProcess process = trace->process("worker \"a\\b\"");
  TraceLane* lane = process.lane("io");
  lane->span(Span::Apply, Instant{1'234'567}, Instant{1'235'567},
             {.worker = 3, .sequence = 41, .amount = 1024, .message = "Commit"});
  lane->span(Span::Wait, Instant{7}, Instant{2'000'000'007});
  CHECK(trace->finish().value().written == 2);

  const Json events = file.events();
  CHECK(metadata(events, "process_name").at("name") == "worker \"a\\b\"");
  CHECK(metadata(events, "thread_name").at("name") == "io");
  CHECK(metadata(events, "totals") == Json{{"written", 2}, {"dropped", 0}});
  const auto spans = with_phase(events, "X");
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].at("name") == "apply");
  CHECK(spans[0].at("ts").get<double>() == doctest::Approx(1234.567));
  CHECK(spans[0].at("dur").get<double>() == doctest::Approx(1.0));
  CHECK(spans[0].at("args") ==
        Json{{"message", "Commit"}, {"worker", 3}, {"sequence", 41}, {"bytes", 1024}});
  CHECK(spans[1].at("ts").get<double>() == doctest::Approx(0.007));
  CHECK(spans[1].at("dur").get<double>() == doctest::Approx(2e6));
  CHECK_FALSE(spans[1].contains("args"));
}

TEST_CASE("trace: the lane of a name is one, and none without a trace") {
  const TraceFile file("lanes");
  auto trace = Trace::open(file.path(), TraceClock::Own).value();
  const TraceProcess process = trace->process("p");
  CHECK(process.lane("io") == process.lane("io"));
  CHECK(process.lane("io") != process.lane("compute"));
  CHECK(trace->process("q").lane("io") != process.lane("io"));
  const TraceProcess none = trace_process(nullptr, "p");
  CHECK_FALSE(none);
  CHECK(none.lane("io") == nullptr);
  const TraceSpan span(nullptr, Span::Compute);  // records nowhere
}

TEST_CASE("trace: freed lanes leave their events and their count of those dropped") {
  const TraceFile file("freed");
  auto trace = Trace::open(file.path(), TraceClock::Scheduler).value();
  const TraceProcess process = trace->process("p");
  for (int run = 0; run < 3; ++run) {
    TraceLane* lane = process.lane("steps");
    for (std::uint64_t i = 0; i < kTraceRingEvents + 5; ++i)
      lane->span(Span::Step, Instant{1}, Instant{2});
    trace->free_lanes();
  }
  const auto totals = trace->finish().value();
  CHECK(totals.written == 3 * kTraceRingEvents);
  CHECK(totals.dropped == 15);
  std::set<int> rows;  // a new lane each time
  for (const Json& span : with_phase(file.events(), "X")) rows.insert(span.at("tid").get<int>());
  CHECK(rows == std::set<int>{1, 2, 3});
}

TEST_CASE("trace: while it does not record nothing is written, and a span under way is whole") {
  const TraceFile file("record");
  auto trace = Trace::open(file.path(), TraceClock::Own).value();
  TraceLane* lane = trace->process("p").lane("io");
  {
    const TraceSpan before(lane, Span::Apply, {.sequence = 1});
    trace->record(false);
    const TraceSpan within(lane, Span::Apply, {.sequence = 2});
    lane->span(Span::Apply, Instant{1}, Instant{2}, {.sequence = 3});
    lane->flow(FlowPoint::Start, Instant{1}, 0, 4, 0);
    trace->record(true);
  }
  lane->span(Span::Apply, Instant{1}, Instant{2}, {.sequence = 5});
  CHECK(trace->finish().value().written == 2);
  const auto spans = with_phase(file.events(), "X");
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].at("args").at("sequence") == 1);
  CHECK(spans[1].at("args").at("sequence") == 5);
}

TEST_CASE("trace: spans of one thread nest as their scopes do") {
  const TraceFile file("nest");
  auto trace = Trace::open(file.path(), TraceClock::Own).value();
  TraceLane* lane = trace->process("p").lane("io");
  {
    const TraceSpan outer(lane, Span::Send);
    { const TraceSpan inner(lane, Span::Serialize); }
    { const TraceSpan inner(lane, Span::Take); }
  }
  REQUIRE(trace->finish());
  const auto spans = with_phase(file.events(), "X");
  REQUIRE(spans.size() == 3);
  const auto begin = [](const Json& span) { return span.at("ts").get<double>(); };
  const auto end = [&](const Json& span) { return begin(span) + span.at("dur").get<double>(); };
  CHECK(spans[2].at("name") == "send");
  constexpr double kRounding = 1e-3;  // of a double that holds microseconds since the boot
  CHECK(begin(spans[2]) <= begin(spans[0]) + kRounding);
  CHECK(end(spans[0]) <= begin(spans[1]) + kRounding);
  CHECK(end(spans[1]) <= end(spans[2]) + kRounding);
}

TEST_CASE("trace: an arrow has one id at all its points, and another for each commit and shard") {
  const TraceFile file("flow");
  auto trace = Trace::open(file.path(), TraceClock::Own).value();
  TraceLane* lane = trace->process("p").lane("io");
  lane->flow(FlowPoint::Start, Instant{1'000}, 2, 9, 1);
  lane->flow(FlowPoint::Step, Instant{2'000}, 2, 9, 1);
  lane->flow(FlowPoint::End, Instant{3'000}, 2, 9, 1);
  lane->flow(FlowPoint::Start, Instant{4'000}, 2, 9, 0);
  REQUIRE(trace->finish());
  const Json events = file.events();
  const Json start = with_phase(events, "s").at(0);
  CHECK(start.at("id") == "2.9.1");
  CHECK(start.at("ts") == 1);
  for (const char* phase : {"t", "f"}) {
    const Json point = with_phase(events, phase).at(0);
    for (const char* key : {"id", "name", "cat"}) CHECK(point.at(key) == start.at(key));
  }
  CHECK(with_phase(events, "s").at(1).at("id") == "2.9.0");
}

// Nothing is taken from the ring before the clocks are aligned: it fills up.
TEST_CASE("trace: what the ring cannot hold is dropped and counted, the rest is whole") {
  const TraceFile file("dropped");
  auto trace = Trace::open(file.path(), TraceClock::Scheduler).value();
  TraceLane* lane = trace->process("p").lane("io");
  constexpr std::uint64_t kTooMany = 10;
  for (std::uint64_t i = 1; i <= kTraceRingEvents + kTooMany; ++i)
    lane->span(Span::Step, Instant{}, Instant{1}, {.sequence = i});
  const auto totals = trace->finish().value();
  CHECK(totals.written == kTraceRingEvents);
  CHECK(totals.dropped == kTooMany);
  const Json events = file.events();
  CHECK(metadata(events, "totals").at("dropped") == kTooMany);
  const auto spans = with_phase(events, "X");
  REQUIRE(spans.size() == kTraceRingEvents);
  CHECK(spans.front().at("args").at("sequence") == 1);
  CHECK(spans.back().at("args").at("sequence") == kTraceRingEvents);
}

TEST_CASE("trace: a node's times are written in the scheduler's clock, also those before it knew") {
  const TraceFile file("aligned");
  auto trace = Trace::open(file.path(), TraceClock::Scheduler).value();
  const TraceProcess process = trace->process("p");
  process.lane("io")->span(Span::Step, Instant{5'000'000}, Instant{6'000'000});
  process.align(Duration{1'000'000'000}, Duration{2'000});
  REQUIRE(trace->finish());
  const Json events = file.events();
  CHECK(with_phase(events, "X").at(0).at("ts").get<double>() == doctest::Approx(1'005'000.0));
  CHECK(metadata(events, "clock") ==
        Json{{"aligned", true}, {"clock_offset_ns", 1'000'000'000}, {"error_ns", 2'000}});
}

TEST_CASE("trace: a node that never heard the scheduler says that its clock is its own") {
  const TraceFile file("alone");
  auto trace = Trace::open(file.path(), TraceClock::Scheduler).value();
  trace->process("p").lane("io")->span(Span::Step, Instant{5'000}, Instant{6'000});
  REQUIRE(trace->finish());
  CHECK(metadata(file.events(), "clock").at("aligned") == false);
  CHECK(with_phase(file.events(), "X").at(0).at("ts") == 5);
}

TEST_CASE("trace: every span of several threads is written once, in the order of its lane") {
  const TraceFile file("threads");
  auto trace = Trace::open(file.path(), TraceClock::Own).value();
  const TraceProcess process = trace->process("p");
  constexpr std::uint64_t kEach = 20'000;
  {
    std::vector<std::jthread> threads;
    for (const char* name : {"a", "b"})
      threads.emplace_back([lane = process.lane(name)] {
        for (std::uint64_t i = 1; i <= kEach; ++i) lane->span(Span::Step, {}, {}, {.sequence = i});
      });
  }
  const auto totals = trace->finish().value();
  CHECK(totals.written + totals.dropped == 2 * kEach);
  std::map<int, std::uint64_t> last;
  std::uint64_t written = 0;
  for (const Json& span : with_phase(file.events(), "X")) {
    const auto sequence = span.at("args").at("sequence").get<std::uint64_t>();
    CHECK(sequence > std::exchange(last[span.at("tid").get<int>()], sequence));
    ++written;
  }
  CHECK(written == totals.written);
}

TEST_CASE("trace: a file that cannot be made is one line that names it") {
  const auto trace = Trace::open("/nowhere/at/all.json", TraceClock::Own);
  REQUIRE_FALSE(trace);
  CHECK(trace.error().code == ErrorCode::BadInput);
  CHECK(trace.error().message.starts_with("cannot write /nowhere/at/all.json: "));
}

TEST_CASE("trace merge: every process of every file keeps its events under a number of its own") {
  const TraceFile first("first");
  const TraceFile second("second");
  const TraceFile merged("merged");
  for (const TraceFile* file : {&first, &second}) {
    auto trace = Trace::open(file->path(), TraceClock::Own).value();
    for (const char* name : {"x", "y"})
      trace->process(file->path() + name).lane("io")->span(Span::Step, {}, Instant{9});
  }
  REQUIRE(merge_traces({first.path(), second.path()}, merged.path()));
  const Json events = merged.events();
  std::map<int, std::string> names;
  for (const Json& event : with_phase(events, "M"))
    if (event.at("name") == "process_name")
      CHECK(names.emplace(event.at("pid"), event.at("args").at("name")).second);
  CHECK(names.size() == 4);
  std::set<int> seen;
  for (const Json& span : with_phase(events, "X"))
    CHECK(seen.insert(span.at("pid").get<int>()).second);
  CHECK(seen.size() == 4);
}

TEST_CASE("trace merge: a file cut anywhere gives the events that are whole") {
  const TraceFile whole("whole");
  {
    auto trace = Trace::open(whole.path(), TraceClock::Own).value();
    TraceLane* lane = trace->process("p {\"}").lane("io");
    for (std::uint64_t i = 1; i <= 3; ++i)
      lane->span(Span::Step, Instant{}, Instant{9}, {.worker = 1, .sequence = i});
  }
  const std::string text = read_file(whole.path()).value();
  const TraceFile cut("cut");
  const TraceFile merged("cut-merged");
  std::size_t spans_before = 0;
  for (std::size_t size = 2; size <= text.size(); ++size) {
    cut.write(text.substr(0, size));
    REQUIRE(merge_traces({cut.path()}, merged.path()));
    const std::size_t spans = with_phase(merged.events(), "X").size();
    CHECK(spans >= spans_before);
    spans_before = spans;
  }
  CHECK(spans_before == 3);
}

TEST_CASE("trace merge: what is no trace, or missing, is refused by name") {
  const TraceFile text("text");
  const TraceFile out("refused");
  text.write("{\"a\": 1}\n");
  const auto refuse = [](const std::string& in, const std::string& to, const std::string& why) {
    const auto done = merge_traces({in}, to);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == ErrorCode::BadInput);
    CAPTURE(done.error().message);
    CHECK(done.error().message.find(why) != std::string::npos);
  };
  refuse(text.path(), out.path(), text.path() + ": no trace");
  refuse(out.path() + ".absent", out.path(), ".absent: cannot be read");
  const TraceFile empty("empty");
  empty.write("[\n");
  refuse(empty.path(), "/nowhere/out.json", "cannot write /nowhere/out.json");
  refuse(std::filesystem::temp_directory_path().string(), out.path(), "no trace");
}

TEST_CASE("trace merge: an output that exists stays as it was when an input is refused") {
  const TraceFile good("good");
  const TraceFile out("kept");
  good.write("[\n");
  out.write("of last week");
  CHECK_FALSE(merge_traces({good.path(), out.path() + ".typo"}, out.path()));
  CHECK(read_file(out.path()) == "of last week");
}

TEST_CASE("trace merge: a process that was killed before it wrote anything has no events") {
  const TraceFile killed("killed");
  const TraceFile other("other");
  const TraceFile merged("merged-all");
  killed.write("");
  {
    auto trace = Trace::open(other.path(), TraceClock::Own).value();
    trace->process("p").lane("io")->span(Span::Step, {}, Instant{9});
  }
  REQUIRE(merge_traces({killed.path(), other.path(), killed.path()}, merged.path()));
  CHECK(with_phase(merged.events(), "X").size() == 1);
}

}  // namespace
}  // namespace rubato
