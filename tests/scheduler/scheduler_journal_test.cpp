// The bytes of a scheduler's journal: what was written is read, to the bit; what is damaged is
// refused, or a torn end dropped.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/checksum.hpp"
#include "proto/codec.hpp"
#include "scheduler/journal_file.hpp"
#include "scheduler/scheduler_journal.hpp"
#include "tests/proto/samples.hpp"
#include "tests/synced_files.hpp"
#include "tests/temp_directory.hpp"

namespace rubato::scheduler {
namespace {

using Kind = SchedulerInput::Kind;

JournalHeader some_header() {
  return {.cluster = 0xc1,
          .run = 77,
          .settings = "sync = bsp\nseed = 1\n",
          .schema = "{}",
          .samples = {{"north", 12}, {"south", 7}},
          .began = {1'000},
          .began_wall = 5'000};
}

proto::Message from(proto::NodeId sender, Incarnation incarnation, proto::Body body) {
  return {.cluster = 0xc1,
          .sender = sender,
          .incarnation = incarnation,
          .body = std::move(body),
          .payload = {}};
}

proto::Progress progress(std::uint64_t steps, double loss) {
  proto::Progress p;
  p.steps = steps;
  p.commits = steps / 2;
  p.step_time = Duration::from_ms(5);
  p.loss = loss;
  p.bytes_down = proto::kNumberMax - steps;
  return p;
}

// The header is large: not every byte of it is tried.
constexpr std::size_t kHeadStep = 97;

std::vector<SchedulerInput> some_inputs() {
  const proto::NodeId worker{proto::Role::Worker, 3}, server{proto::Role::Server, 1};
  std::vector<SchedulerInput> all;
  Instant now{1'000};
  const auto add = [&](Kind kind, proto::Message message = {}) {
    now = now + Duration{static_cast<std::int64_t>(all.size() * 1'000'003)};
    all.push_back({.kind = kind,
                   .now = now,
                   .wall = kind == Kind::Return ? 9'000 : 0,
                   .message = std::move(message)});
  };
  add(Kind::Wakeup);
  add(Kind::Message, from({proto::Role::Worker, 0}, 9, proto::Hello{"edge-0", 10, ""}));
  add(Kind::Message, from(server, 8, proto::Heartbeat{}));
  add(Kind::Message, from(server, 8, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 4}));
  add(Kind::Message, from(worker, 9, progress(10, 0.5)));
  add(Kind::Message, from(worker, 9, progress(12, std::numeric_limits<double>::quiet_NaN())));
  add(Kind::Return);
  add(Kind::Message, from(worker, 9, progress(2, -0.0)));
  add(Kind::Message, from(worker, 10, progress(1, 0.25)));
  add(Kind::Message, from(worker, 10, proto::Leave{"battery"}));
  add(Kind::Message, from(server, 8, proto::MembersAck{7}));
  proto::Heartbeat seeded;
  seeded.seeded = 3;
  add(Kind::Message, from(server, 8, seeded));
  add(Kind::Resharded);
  all.back().to = {.servers = 3, .addresses = {"tcp://a:1", ""}, .snapshot = 300};
  all.push_back({.kind = Kind::State, .now = now, .message = {}, .state = 0x1234'5678'9abc'def0});
  add(Kind::Wakeup);
  return all;
}

std::string text_of(const SchedulerInput& input) {
  std::string text = std::to_string(static_cast<int>(input.kind)) + " " +
                     std::to_string(input.now.ns) + " " + std::to_string(input.wall);
  if (input.kind == Kind::Resharded)
    return fmt::format("{} {} {} {}", text, input.to.servers, input.to.snapshot,
                       fmt::join(input.to.addresses, ","));
  if (input.kind == Kind::State) return fmt::format("{} {}", text, input.state);
  if (input.kind != Kind::Message) return text;
  const auto frame = proto::encode(input.message);
  return text +
         std::string(reinterpret_cast<const char*>(frame.control.data()), frame.control.size());
}

std::string write(JournalWriter& writer, const SchedulerInput& input) {
  const auto record = writer.record(input);
  REQUIRE(record);
  writer.note(input, *record);
  return *record;
}

std::string journal_of(const std::vector<SchedulerInput>& inputs) {
  std::string bytes = header_bytes(some_header());
  JournalWriter writer(some_header());
  for (const auto& input : inputs) bytes += write(writer, input);
  return bytes;
}

struct Read {
  std::vector<std::string> inputs;
  bool refused = false;
  std::size_t torn = 0;
};

Read read_all(const std::string& bytes) {
  Read read;
  auto reader = JournalReader::open(std::as_bytes(std::span(bytes)));
  if (!reader) {
    CHECK_FALSE(reader.error().message.empty());
    read.refused = true;
    return read;
  }
  CHECK(reader->header() == some_header());
  while (const auto input = reader->next()) read.inputs.push_back(text_of(*input));
  read.torn = reader->torn();
  return read;
}

std::vector<std::string> texts(const std::vector<SchedulerInput>& inputs) {
  std::vector<std::string> all;
  for (const auto& input : inputs) all.push_back(text_of(input));
  return all;
}

TEST_CASE("journal: every message comes back to the bit") {
  auto inputs = some_inputs();
  for (proto::Message message : proto::samples::every_message()) {
    if (!message.payload.empty()) continue;
    message.cluster = some_header().cluster;
    // What only an answer of the scheduler has, and what fills a question.
    if (auto* beat = std::get_if<proto::Heartbeat>(&message.body)) {
      beat->echo = beat->clock = {};
      beat->fill = 0;
    }
    inputs.push_back(
        {.kind = Kind::Message, .now = inputs.back().now, .wall = 0, .message = message});
  }
  const auto read = read_all(journal_of(inputs));
  CHECK_FALSE(read.refused);
  CHECK(read.torn == 0);
  CHECK(read.inputs == texts(inputs));
}

TEST_CASE("journal: a second process goes on where the first has ended") {
  const auto inputs = some_inputs();
  for (std::size_t cut = 0; cut <= inputs.size(); ++cut) {
    const auto at = inputs.begin() + static_cast<std::ptrdiff_t>(cut);
    std::string bytes = journal_of({inputs.begin(), at});
    auto reader = JournalReader::open(std::as_bytes(std::span(bytes)));
    REQUIRE(reader);
    while (reader->next()) continue;
    CHECK(reader->last() == (cut == 0 ? some_header().began : inputs[cut - 1].now));
    auto writer = reader->writer();
    for (auto rest = at; rest != inputs.end(); ++rest) bytes += write(writer, *rest);
    CHECK(read_all(bytes).inputs == texts(inputs));
  }
}

// A journal as 0.2.0 wrote it: format 5 in each head, and the sum of a record is of its input
// alone.
std::string journal_of_0_2_0(const std::vector<SchedulerInput>& inputs) {
  std::string bytes = header_bytes(some_header());
  JournalWriter writer(some_header());
  for (const auto& input : inputs) {
    std::string record = write(writer, input);
    const auto sum =
        static_cast<std::uint32_t>(checksum(std::as_bytes(std::span(record)).subspan(8)));
    std::memcpy(&record[4], &sum, sizeof sum);
    bytes += record;
  }
  const std::size_t each = header_bytes(some_header()).size() / 3;
  for (std::size_t at = 0; at < 3 * each; at += each) {
    bytes[at + 8] = 5;
    std::uint64_t text = 0;
    std::memcpy(&text, &bytes[at + 16], sizeof text);
    const std::size_t size = 24 + text;
    const std::uint64_t sum = checksum(std::as_bytes(std::span(bytes).subspan(at, size)));
    std::memcpy(&bytes[at + size], &sum, sizeof sum);
  }
  return bytes;
}

TEST_CASE("journal: one of 0.2.0 is read, and goes on as one that 0.2.0 refuses") {
  const auto inputs = some_inputs();
  const auto state = std::ranges::find(inputs, Kind::State, &SchedulerInput::kind);
  const std::string old = journal_of_0_2_0({inputs.begin(), state}) + "torn";
  auto reader = JournalReader::open(std::as_bytes(std::span(old)));
  REQUIRE(reader);
  CHECK(reader->older());
  while (reader->next()) continue;
  std::string renewed = reader->renewed();
  auto writer = reader->writer();
  for (auto rest = state; rest != inputs.end(); ++rest) renewed += write(writer, *rest);
  CHECK(renewed == journal_of(inputs));
  CHECK_FALSE(JournalReader::open(std::as_bytes(std::span(renewed)))->older());
}

// Of the same journal and of another run: a block of a disk may lie where it does not belong.
TEST_CASE("journal: a record is good only in its place") {
  const auto inputs = some_inputs();
  JournalWriter writer(some_header());
  std::vector<std::string> records;
  for (const auto& input : inputs) records.push_back(write(writer, input));
  for (std::size_t i = 0; i < records.size(); ++i)
    for (std::size_t place = 0; place < records.size(); ++place) {
      if (i == place) continue;
      std::string bytes = header_bytes(some_header());
      for (std::size_t at = 0; at < records.size(); ++at) bytes += records[at == place ? i : at];
      CAPTURE(i);
      CAPTURE(place);
      const auto read = read_all(bytes);
      CHECK(read.inputs.size() == place);
      CHECK(read.torn > 0);
    }
  JournalHeader other = some_header();
  other.run ^= 1;
  const std::string bytes = header_bytes(other) + records[0] + records[1];
  CHECK_FALSE(JournalReader::open(std::as_bytes(std::span(bytes)))->next());
}

TEST_CASE("journal: the last instant by the wall clock is counted from the last return") {
  const auto inputs = some_inputs();
  const std::string bytes = journal_of(inputs);
  auto reader = JournalReader::open(std::as_bytes(std::span(bytes)));
  REQUIRE(reader);
  while (reader->next()) continue;
  CHECK(reader->last_wall() == 9'000 + (inputs.back().now - inputs[6].now).ns);
}

TEST_CASE("journal: cut anywhere it loses its last record and no other") {
  const auto inputs = some_inputs();
  const auto whole = texts(inputs);
  const std::string bytes = journal_of(inputs);
  const std::size_t header = header_bytes(some_header()).size();
  for (std::size_t size = 0; size < bytes.size();
       size += size + kHeadStep < header ? kHeadStep : 1) {
    const auto read = read_all(bytes.substr(0, size));
    CAPTURE(size);
    CHECK(read.refused == (size < header));
    if (read.refused) continue;
    REQUIRE(read.inputs.size() < whole.size());
    CHECK(std::equal(read.inputs.begin(), read.inputs.end(), whole.begin()));
    std::size_t records = 0;
    for (std::size_t kept = header;;) {
      JournalWriter writer(some_header());
      std::string all;
      for (std::size_t i = 0; i <= records; ++i) all += write(writer, inputs[i]);
      kept = header + all.size();
      if (kept > size) break;
      ++records;
    }
    CHECK(read.inputs.size() == records);
  }
  // What a file system may leave behind the end after a loss of power.
  const auto zeros = read_all(bytes + std::string(4096, '\0'));
  CHECK_FALSE(zeros.refused);
  CHECK(zeros.inputs == whole);
  CHECK(zeros.torn == 4096);
}

TEST_CASE("journal: a flipped bit costs what stands behind it, and is never read") {
  const auto inputs = some_inputs();
  const auto whole = texts(inputs);
  std::string bytes = journal_of(inputs);
  JournalWriter writer(some_header());
  const std::size_t header = header_bytes(some_header()).size();
  std::vector<std::size_t> ends;  // of the records
  for (const auto& input : inputs)
    ends.push_back((ends.empty() ? header : ends.back()) + write(writer, input).size());
  for (std::size_t at = 0; at < bytes.size(); at += at + kHeadStep < header ? kHeadStep : 1) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      const auto read = read_all(bytes);
      CAPTURE(at);
      CAPTURE(bit);
      CHECK_FALSE(read.refused);
      const auto good =
          at < header ? whole.size() : std::ranges::upper_bound(ends, at) - ends.begin();
      CHECK(read.inputs == std::vector(whole.begin(), whole.begin() + good));
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    }
  }
}

TEST_CASE("journal: one good head of three is enough, and none is refused") {
  const auto whole = texts(some_inputs());
  const std::size_t head = header_bytes(some_header()).size() / 3;
  for (std::size_t good = 0; good < 3; ++good) {
    std::string bytes = journal_of(some_inputs());
    for (std::size_t i = 0; i < 3; ++i)
      if (i != good) bytes[i * head + 50] = static_cast<char>(~bytes[i * head + 50]);
    CAPTURE(good);
    CHECK(read_all(bytes).inputs == whole);
    bytes[good * head + 50] = static_cast<char>(~bytes[good * head + 50]);
    CHECK(read_all(bytes).refused);
  }
  CHECK(read_all("").refused);
  CHECK(read_all(std::string(1 << 16, '\0')).refused);
}

TEST_CASE("journal: a page of zeros in its heads costs nothing") {
  const auto inputs = some_inputs();
  const std::string bytes = journal_of(inputs);
  const std::size_t header = header_bytes(some_header()).size();
  for (std::size_t page = 0; page < header; page += 4096) {
    std::string zeroed = bytes;
    zeroed.replace(page, 4096, 4096, '\0');
    CAPTURE(page);
    CHECK(read_all(zeroed).inputs == texts(inputs));
  }
}

TEST_CASE("journal file: appended bytes are there for the next process, one at a time") {
  const TempDirectory directory;
  const std::string path = directory.path("state/scheduler.journal");
  {
    auto file = JournalFile::open(path);
    REQUIRE(file);
    CHECK(file->read() == std::string());
    REQUIRE(file->append("abc"));
    REQUIRE(file->append("def"));
    const auto second = JournalFile::open(path);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == ErrorCode::BadInput);
    CHECK(second.error().message.find(path + ": another scheduler writes here") == 0);
  }
  auto file = JournalFile::open(path);
  REQUIRE(file);
  CHECK(file->read() == std::string("abcdef"));
  REQUIRE(file->cut(2));
  REQUIRE(file->append("x"));
  CHECK(file->read() == std::string("abx"));
  REQUIRE(file->replace("other"));
  REQUIRE(file->append("s"));
  CHECK(file->read() == std::string("others"));
  CHECK_FALSE(JournalFile::open(path));
  CHECK_FALSE(std::filesystem::exists(path + ".new"));
  CHECK(JournalFile::open("/dev/null/journal").error().code == ErrorCode::BadInput);
}

TEST_CASE("journal file: what is read is on the disk, also what an earlier process has written") {
  const TempDirectory directory;
  const std::string state = std::filesystem::canonical(directory.path()) / "state";
  const std::string path = state + "/scheduler.journal";
  {
    auto file = JournalFile::open(path);
    REQUIRE(file);
    REQUIRE(file->append("told to others, and then killed"));
  }
  auto file = JournalFile::open(path);
  REQUIRE(file);
  SyncedFiles::take();
  CHECK(file->read());
  const auto synced = SyncedFiles::take();
  CHECK(synced.contains(path));
  CHECK(synced.contains(state));
  for (const std::string& each : {path, state}) {
    auto other = JournalFile::open(path + "." + std::to_string(each.size()));
    REQUIRE(other);
    SyncedFiles::fail(each == path ? other->path() : each);
    const auto read = other->read();
    SyncedFiles::fail("");
    REQUIRE_FALSE(read);
    CHECK(read.error().message.ends_with(": Input/output error"));
  }
}

}  // namespace
}  // namespace rubato::scheduler
