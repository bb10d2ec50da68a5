// proto/shm/channel.hpp - one direction of shared memory: a ring of records (control frame, small
// payload). A larger payload is lent where it lies in memory that the reader can see, and copied
// into slots of one chunk each where it cannot. One writer, one reader, no lock.
// Slots rather than one byte ring: a receiver may hold payloads as long as it likes (a BSP round)
// and give them back in any order, and the lowest free slot is the one still in the caches.
// The other process is a peer, not a friend: every number read from shared memory is read once and
// range-checked; a control frame is copied before anyone looks at it. Wrong: Corrupt.
// Threads: writer and reader have one owner each; a payload may be released on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "proto/block_pool.hpp"
#include "proto/buffer_pool.hpp"
#include "proto/codec.hpp"
#include "proto/shm/local_socket.hpp"

namespace rubato::proto::shm {

inline constexpr std::size_t kSlotBytes = kChunkBytesDefault;
inline constexpr std::size_t kSlots = 16;
// Slots that the reader hands out in place; beyond them it copies, so that the writer always gets
// slots back, however long payloads are held.
inline constexpr std::size_t kSlotsHeldMax = kSlots / 2;
// Payloads that are lent at a time, and of these as many that the reader hands out in place.
inline constexpr std::size_t kLoans = 256;
inline constexpr std::size_t kLoansHeldMax = kLoans / 2;
// Slots that the writer fills ahead of the reader before it begins a message. More would let
// nothing arrive sooner, but push the first of them out of the caches before they are read.
inline constexpr std::size_t kSlotsAheadMax = 4;
inline constexpr std::size_t kRingBytes = 1u << 20;
inline constexpr std::size_t kInlineBytesMax = 16 * 1024;  // payloads up to this lie in the ring

// What lies at the start of a channel. Zero bytes are a valid empty channel.
struct ChannelHeader {
  alignas(64) std::atomic<std::uint64_t> tail;  // bytes ever written; the writer's
  std::atomic<std::uint32_t> writer_waits;      // for room: ring its bell
  alignas(64) std::atomic<std::uint64_t> head;  // bytes ever read; the reader's
  std::atomic<std::uint32_t> reader_sleeps;     // until something comes: ring its bell
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> busy;  // set by the writer, cleared by the reader
  } slots[kSlots + kLoans];           // the first kSlots have memory here, the others are loans
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A record of the ring. The first of a message has a control frame; a payload above kSlotBytes
// takes several records.
struct alignas(32) Record {
  std::uint32_t control_bytes = 0;
  std::uint32_t part_bytes = 0;     // of the payload, in this record; of a loan all
  std::uint32_t payload_bytes = 0;  // of the message
  std::uint32_t slot = 0;           // where the part is; kInRing: behind the control frame
  std::uint64_t offset = 0;         // of a loan, in the writer's own memory
};
inline constexpr std::uint32_t kInRing = 0xffff'ffff;
inline constexpr std::uint32_t kPadding = 0xffff'fffe;  // skip to the start of the ring

inline constexpr std::size_t kChannelBytes =
    (sizeof(ChannelHeader) + 4095) / 4096 * 4096 + kRingBytes + kSlots * kSlotBytes;
inline constexpr std::size_t kRegionBytes = 2 * kChannelBytes;  // 0: to the listener, 1: from it

// Both ends' view of direction `index` of a region.
class Channel {
 public:
  Channel(std::shared_ptr<Mapping> mapping, std::size_t index);

  ChannelHeader& header() const { return *header_; }
  std::span<std::byte> ring() const { return ring_; }
  std::span<std::byte> slot(std::size_t index) const {
    return slots_.subspan(index * kSlotBytes, kSlotBytes);
  }

 private:
  std::shared_ptr<Mapping> mapping_;
  ChannelHeader* header_;
  std::span<std::byte> ring_;
  std::span<std::byte> slots_;
};

// A message on its way into a channel.
struct Outgoing {
  Encoded encoded;
  std::size_t sent = 0;  // bytes of the payload
  bool begun = false;
};

class ChannelWriter {
 public:
  // A bell through `socket` wakes the reader. `lends`: it has mapped what base/shareable.hpp
  // shares.
  ChannelWriter(Channel channel, std::shared_ptr<const Descriptor> socket, bool lends = false);
  // What is lent is not written or freed again while this process lives: somebody may read it.
  ~ChannelWriter();
  ChannelWriter(const ChannelWriter&) = delete;
  ChannelWriter& operator=(const ChannelWriter&) = delete;

  // Puts in as much of the message as there is room for. Returns whether that was all; else the
  // reader rings when there is more room, and the same message must come next.
  // Requires: within the codec's limits.
  bool write(Outgoing& message);
  // Lets go of what was given back.
  void reclaim();
  // Lets go of all that is lent: the reader and its process, or what it holds, are gone.
  void on_reader_gone() {
    loans_.clear();
    lent_bytes_ = 0;
  }
  bool lending() const { return !loans_.empty(); }
  std::size_t lent_bytes() const { return lent_bytes_; }

 private:
  // A payload in the reader's hands.
  struct Loan {
    std::uint32_t slot = 0;
    Payload payload;
  };

  bool put_all(Outgoing& message);
  bool put_record(Outgoing& message);
  std::optional<std::uint64_t> lendable(const Outgoing& message) const;
  std::optional<std::uint32_t> free_loan();
  std::span<std::byte> reserve(std::size_t bytes);
  bool far_ahead();
  std::optional<std::uint32_t> free_slot() const;
  void publish();

  Channel channel_;
  std::shared_ptr<const Descriptor> socket_;
  std::uint64_t tail_ = 0;            // ours: the one in shared memory is for the reader
  std::vector<std::uint64_t> ahead_;  // where the records end whose slots may not be read yet
  bool lends_;
  std::vector<Loan> loans_;
  std::size_t lent_bytes_ = 0;
  std::vector<std::uint32_t> free_loans_;  // slots
};

struct Frames {
  std::vector<std::byte> control;
  Payload payload;
};

class ChannelReader {
 public:
  // A bell through `socket` wakes the writer, and its end says that nobody reads any more: neither
  // the reader nor a payload is left. `lent`: the writer's own memory, if it lends.
  ChannelReader(Channel channel, std::shared_ptr<const Descriptor> socket,
                std::shared_ptr<Mapping> lent = nullptr);

  // The next whole message, if it is there. After an error the channel is of no more use.
  [[nodiscard]] Result<std::optional<Frames>> read();
  // The memory of a control frame that read() gave and nobody needs any more, for the next one.
  void reuse(std::vector<std::byte> control) {
    if (!open_) frames_.control = std::move(control);
  }
  // Says whether the writer must ring. Returns whether something is there already.
  bool sleep();
  void awake();
  bool ready() const;

 private:
  class Freed;

  Result<std::optional<Record>> next_record(std::uint64_t tail);
  Result<bool> take(const Record& record, std::uint64_t waiting);
  std::span<const std::byte> bytes_of(const Record& record) const;
  Payload in_place(const Record& record);
  Payload copied(std::span<const std::byte> bytes);
  void append(std::span<const std::byte> part, const Record& record);

  std::shared_ptr<Freed> freed_;
  std::shared_ptr<BlockPool> owners_ = std::make_shared<BlockPool>();  // of payloads in place
  BufferPool copies_{kInlineBytesMax / sizeof(float)};
  std::uint64_t head_ = 0;
  // The message that is being put together.
  Frames frames_;
  std::shared_ptr<std::byte[]> assembled_;
  std::size_t assembled_bytes_ = 0;
  std::size_t total_ = 0;
  bool open_ = false;  // more records of it must follow
};

}  // namespace rubato::proto::shm
