// Frames, what transports say to each other, the scheduler's journal, snapshots. Checksums are made
// right: what is behind them is tried.
#include <array>
#include <cstring>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "proto/codec.hpp"
#include "proto/shm/signal.hpp"
#include "scheduler/durable_scheduler.hpp"
#include "server/file_storage.hpp"
#include "server/shard_log.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/proto/samples.hpp"

namespace rubato::fuzz {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string with_checksum(std::string bytes) {
  const std::uint64_t sum = checksum(bytes_of(bytes));
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return bytes;
}

// --- frames --------------------------------------------------------------------------------------

bool read_frame(std::string_view bytes) {
  return taken(proto::decode(checksummed(bytes), {}));
}

std::vector<std::string> frames() {
  std::vector<std::string> all;
  for (auto message : proto::samples::every_message()) {
    message.payload = {};
    const auto encoded = proto::encode(message);
    all.push_back(text_of({encoded.control.begin(), encoded.control.end()}));
  }
  return all;
}

bool read_signal(std::string_view bytes) {
  return proto::shm::read_signal(bytes_of(bytes)).has_value();
}

std::vector<std::string> signals() {
  const proto::shm::Token token{1, 2};
  std::vector<std::string> all;
  for (const auto& signal :
       {proto::shm::Signal{proto::shm::SignalKind::Offer, token, "host", {}},
        proto::shm::Signal{proto::shm::SignalKind::Answer, token, {}, "rubato-1"},
        proto::shm::Signal{proto::shm::SignalKind::Decline, token, {}, {}},
        proto::shm::Signal{proto::shm::SignalKind::Switch, token, {}, {}}})
    all.push_back(text_of(proto::shm::write_signal(signal)));
  return all;
}

// --- the journal ---------------------------------------------------------------------------------

scheduler::SchedulerOptions scheduler_options() {
  scheduler::SchedulerOptions options;
  options.cluster = 7;
  options.incarnation = 21;
  options.parameters = 52'650;
  options.workers = 2;
  options.save_every = Duration::from_seconds(10);
  options.watch.emplace();
  return options;
}

constexpr std::size_t kLengthBytes = 2;  // of a record, in an input of this target
constexpr std::size_t kRecordHead = 8;

// Records, each behind its length: the file of a journal has checksums before them.
bool read_journal(std::string_view bytes) {
  scheduler::JournalHeader header;
  header.cluster = 7;
  header.run = 21;
  std::string file = scheduler::header_bytes(header);
  std::uint32_t sum = scheduler::JournalWriter(header).sum();
  while (bytes.size() > kLengthBytes) {
    std::uint16_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const std::string_view input = bytes.substr(kLengthBytes, length);
    const std::string record = scheduler::record_of(input, sum);
    sum = scheduler::sum_of(record);
    file += record;
    bytes.remove_prefix(kLengthBytes + input.size());
  }
  auto reader = scheduler::JournalReader::open(bytes_of(file));
  if (!reader) return taken(reader);
  scheduler::Scheduler core(scheduler_options(), nullptr);
  scheduler::DurableScheduler::replay(*reader, core);
  core.status(reader->last());
  core.record();
  return !reader->damaged();
}

std::vector<std::string> journals() {
  scheduler::JournalWriter writer(scheduler::JournalHeader{});
  std::string all;
  const auto add = [&](const scheduler::SchedulerInput& input) {
    const std::string record = *writer.record(input);
    writer.note(input, record);
    const auto length = static_cast<std::uint16_t>(record.size() - kRecordHead);
    all.append(reinterpret_cast<const char*>(&length), sizeof length);
    all.append(record, kRecordHead);
  };
  std::int64_t ns = 0;
  for (auto message : proto::samples::every_message()) {
    message.cluster = 7;
    message.payload = {};
    message.sent = {};
    const auto frame = proto::encode(message);
    if (!proto::decode({frame.control.begin(), frame.control.end()}, {})) continue;  // no payload
    add({.kind = scheduler::SchedulerInput::Kind::Message,
         .now = {ns += 1'000'000'000},
         .message = std::move(message)});
    add({.now = {ns += 1'000'000}, .message = {}});
  }
  add({.kind = scheduler::SchedulerInput::Kind::Return,
       .now = {ns += 1'000'000},
       .wall = 9,
       .message = {}});
  add({.kind = scheduler::SchedulerInput::Kind::Resharded,
       .now = {ns += 1'000'000},
       .message = {},
       .to = {.servers = 3, .addresses = {}, .snapshot = 5}});
  return {all};
}

// --- snapshots -----------------------------------------------------------------------------------

bool read_snapshot(std::string_view bytes) {
  const std::string file = file_of("server-1.0.snapshot", with_checksum(std::string(bytes)));
  const auto storage = server::open_storage(
      {.directory = file.substr(0, file.find_last_of('/')), .server = "server-1", .cluster = 7});
  if (!storage) return taken(storage);
  const auto inventory = (*storage)->list();
  for (const auto& found : inventory.snapshots) {
    const auto snapshot = (*storage)->load(found.info);
    if (!taken(snapshot)) return false;
  }
  for (const std::string& line : inventory.refused)
    taken(Result<void>(fail(ErrorCode::Corrupt, line)));
  return !inventory.snapshots.empty();
}

std::vector<std::string> snapshots() {
  server::ShardSnapshot snapshot;
  snapshot.cluster = 7;
  snapshot.info = {21, 3, 40};
  snapshot.range = {0, 5};
  snapshot.settings = "sync = bsp\n";
  snapshot.state.size = 5;
  for (int chunk = 0; chunk < 2; ++chunk) {
    auto& each = snapshot.state.parameters.emplace_back();
    each.values = std::make_shared<Floats>(3);
  }
  snapshot.state.optimizer.velocity = {1, 2, 3, 4, 5};
  const std::string file = file_of("seed.0.snapshot", "");
  auto storage = server::open_storage(
      {.directory = file.substr(0, file.find_last_of('/')), .server = "seed", .cluster = 7});
  (*storage)->save(snapshot, 0);
  storage->reset();  // waits until it is written
  auto written = read_file(file);
  written->resize(written->size() - sizeof(std::uint64_t));
  return {*written};
}

// --- the log of a shard --------------------------------------------------------------------------

server::Shard small_shard() {
  return {{.chunk_bytes = 3 * sizeof(float),
           .optimizer = {.kind = server::OptimizerKind::DelayedNesterov, .momentum = 0.5},
           .average = true,
           .blank = nullptr},
          std::vector<float>(5, 1.0f)};
}

bool read_shard_log(std::string_view bytes) {
  server::Shard shard = small_shard();
  std::uint32_t phase = 0;
  return taken(server::replay(std::as_bytes(std::span(bytes)), shard, phase));
}

std::vector<std::string> shard_logs() {
  server::Shard shard = small_shard();
  shard.keep_log();
  const std::vector<float> update(5, 0.5f);
  shard.apply(0, update, shard.begin_update(2, 1));
  shard.count_update();
  shard.move_towards(1, std::span(update).first(2), 0.5f);
  shard.collect(0, update, 1);
  shard.count_collected(1);
  shard.flush();
  shard.remember({1}, 0, update, {});
  shard.remember({1}, 0, update, {.later = true});
  shard.turn_memory();
  shard.apply_remembered(2);
  shard.forget({1});
  shard.for_evaluator();
  shard.keep();
  shard.restore(1);
  const auto taken = shard.log()->take();
  const auto log = taken.log();
  return {{reinterpret_cast<const char*>(log.data()), log.size()}};
}

}  // namespace

std::span<const Target> wire_targets() {
  static constexpr std::array kAll{
      Target{"frame", read_frame, frames}, Target{"signal", read_signal, signals},
      Target{"journal", read_journal, journals}, Target{"snapshot", read_snapshot, snapshots},
      Target{"shard-log", read_shard_log, shard_logs}};
  return kAll;
}

}  // namespace rubato::fuzz
