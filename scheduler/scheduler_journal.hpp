// scheduler/scheduler_journal.hpp - the scheduler's durable state as bytes: a header, then
// everything that it heard, in order. The same inputs lead another Scheduler to the same state
// (docs/decisions/0009-the-schedulers-journal.md). docs/operations/recovery.md has its cost.
//
//     file    := header header header record*      one good copy is enough
//     header  := "RBTOJRNL" format:u64 length:u64 fields XXH3:u64 zeros, up to whole pages of 4 KiB
//     record  := length:u24 parity:u8 XXH3:u32 input
//     input   := kind:u8 time:varint ...          time: ns since the record before
//
// The XXH3 of a record is that of the one before (of the first: of the run) and its input. So a
// record is good only in its place, and a write that went elsewhere is never read.
// Little-endian. A message is a control frame, as on the wire. Progress and heartbeats of a sender
// that is known are shorter: the differences from its last Progress; nothing but what is saved.
// A State has a hash of the scheduler's state, and no time. A Hello leaves out the cluster's
// settings. The last record may be torn. It ends where it is damaged, or where a record cannot be
// understood: what stands before is good.
// Pure. Threads: one owner. Errors: Corrupt, what is wrong, without the file's name, for a header,
// or for a record that could not be read again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"
#include "scheduler/scheduler.hpp"

namespace rubato::scheduler {

struct JournalHeader {
  std::uint64_t protocol = proto::kProtocolVersion;
  std::uint64_t cluster = 0;
  Incarnation run = 0;   // the scheduler's incarnation, in all its lives
  std::string settings;  // all that decides how the run goes on, "key = value", one a line
  std::string schema;    // of own data; empty: the nodes know their data
  std::map<std::string, std::uint64_t> samples = {};  // of own data, by worker
  Instant began;                                      // the first life's clock
  std::int64_t began_wall = 0;                        // in ns since 1970
  bool operator==(const JournalHeader&) const = default;
};

// What a Scheduler was told.
struct SchedulerInput {
  enum class Kind : std::uint8_t { Wakeup, Return, Message, Progress, Heartbeat, Resharded, State };
  Kind kind = Kind::Wakeup;  // of a message, how it is written
  Instant now;
  std::int64_t wall = 0;    // Return: ns since 1970
  proto::Message message;   // without a payload
  Resharding to = {};       // Resharded
  std::uint64_t state = 0;  // State: Scheduler::state_hash() after all that stands before
};

// The options that decide how the run goes on: all but its seed, its sync model (which are among
// the settings of every node) and when it is over.
std::string settings_of(const SchedulerOptions& options);

// The servers that a run with such settings began with.
Resharding servers_of(const std::string& settings);

// All copies.
std::string header_bytes(const JournalHeader& header);

// Of a record of this input: its head and the input. `before`: the sum of the record before it.
std::string record_of(std::string_view input, std::uint32_t before);
// Of a record.
std::uint32_t sum_of(std::string_view record);

// What a record need not repeat: who has spoken, and when the last record was; and the sum of that.
// Both ends of a journal keep one.
class JournalContext {
 public:
  static constexpr std::size_t kOwnWords = 9;  // of a Progress, before the worker's figures
  static constexpr std::size_t kWords = kOwnWords + std::size(kWorkerFigures);
  using Words = std::array<std::uint64_t, kWords>;
  struct Sender {
    Incarnation incarnation = 0;
    Words progress{};  // its last
  };
  explicit JournalContext(const JournalHeader& header)
      : last_(header.began), sum_(static_cast<std::uint32_t>(header.run)) {}

  // The input of a record.
  std::string write(const SchedulerInput& input) const;
  // `cluster`: of the messages. Corrupt: it cannot be understood.
  [[nodiscard]] Result<SchedulerInput> read(std::span<const std::byte> bytes,
                                            std::uint64_t cluster) const;
  // It is in the journal, as a record of this sum.
  void note(const SchedulerInput& input, std::uint32_t sum);
  Instant last() const { return last_; }
  std::uint32_t sum() const { return sum_; }

 private:
  // Null: it has not spoken.
  const Sender* find(proto::NodeId node) const;

  std::map<proto::NodeId, Sender> senders_;
  Instant last_;
  std::uint32_t sum_;
};

class JournalWriter {
 public:
  // The reader of what stands before has come to its end here.
  explicit JournalWriter(JournalContext context) : context_(std::move(context)) {}
  explicit JournalWriter(const JournalHeader& header) : context_(header) {}

  // Returns: one record. Corrupt: a reader could not read it, so nothing may rest on it.
  [[nodiscard]] Result<std::string> record(const SchedulerInput& input) const;
  // It is in the journal.
  void note(const SchedulerInput& input, std::string_view record) {
    context_.note(input, sum_of(record));
  }
  // Of the last record.
  std::uint32_t sum() const { return context_.sum(); }

 private:
  JournalContext context_;
};

class JournalReader {
 public:
  // Lifetime: `bytes`, longer than this. Corrupt for a header that is not one of ours.
  [[nodiscard]] static Result<JournalReader> open(std::span<const std::byte> bytes);

  const JournalHeader& header() const { return header_; }
  // Nothing at the end, or where it is damaged: what stands behind that is of no use.
  std::optional<SchedulerInput> next();

  // Bytes of the header and of all whole records so far.
  std::size_t position() const { return position_; }
  // Bytes behind the last whole record, and whether they are more than a record that was not
  // written whole. Requires: next() has come to the end.
  std::size_t torn() const { return bytes_.size() - position_; }
  bool damaged() const { return damaged_; }
  // Whether an earlier release wrote it, which would not understand the records of this one. Its
  // sums do not know of the record before.
  bool older() const { return older_; }
  // The header and all whole records so far, in the format of this release.
  std::string renewed() const;
  // The instant of the last record, on the clock of the first life.
  Instant last() const { return context_.last(); }
  // The instant of the last record by the wall clock, in ns since 1970.
  std::int64_t last_wall() const { return wall_ + (last() - wall_at_).ns; }
  // What goes on where this has come to its end.
  JournalWriter writer() const { return JournalWriter(context_); }

 private:
  [[nodiscard]] static Result<JournalReader> open_at(std::span<const std::byte> all,
                                                     std::size_t offset);
  explicit JournalReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
  JournalHeader header_;
  JournalContext context_{header_};
  std::size_t position_ = 0;
  bool damaged_ = false;
  bool older_ = false;
  // A reading of both clocks.
  Instant wall_at_;
  std::int64_t wall_ = 0;
};

}  // namespace rubato::scheduler
