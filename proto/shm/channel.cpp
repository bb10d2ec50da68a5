#include "proto/shm/channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/shareable.hpp"

namespace rubato::proto::shm {
namespace {

constexpr std::size_t kAlign = sizeof(Record);

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

static_assert(2 * aligned(sizeof(Record) + kControlBytesMax + kInlineBytesMax) <= kRingBytes,
              "the largest record fits an empty ring wherever it starts");

tl::unexpected<Error> corrupt(const char* what, std::uint64_t number) {
  return fail(ErrorCode::Corrupt, fmt::format("shared memory holds {} {}", what, number));
}

constexpr bool is_loan(std::uint32_t slot) {
  return slot >= kSlots && slot < kSlots + kLoans;
}

// Rings if the flag was up. What we published before, and the flag, are both stored and loaded in
// the one order of sequential consistency (plain = and load() here); the other side raises the
// flag, then looks again: one of the two sees the other.
void ring_if(std::atomic<std::uint32_t>& flag, const Descriptor& socket) {
  if (flag.load() != 0 && flag.exchange(0) != 0) ring_bell(socket);
}

}  // namespace

Channel::Channel(std::shared_ptr<Mapping> mapping, std::size_t index)
    : mapping_(std::move(mapping)) {
  const auto bytes = mapping_->bytes().subspan(index * kChannelBytes, kChannelBytes);
  header_ = reinterpret_cast<ChannelHeader*>(bytes.data());
  slots_ = bytes.last(kSlots * kSlotBytes);
  ring_ = bytes.first(bytes.size() - slots_.size()).last(kRingBytes);
}

ChannelWriter::ChannelWriter(Channel channel, std::shared_ptr<const Descriptor> socket, bool lends)
    : channel_(std::move(channel)), socket_(std::move(socket)), lends_(lends) {
  loans_.reserve(kLoans);
  for (std::uint32_t slot = kSlots + kLoans; slot-- > kSlots;) free_loans_.push_back(slot);
}

ChannelWriter::~ChannelWriter() {
  reclaim();
  static std::mutex mutex;
  static auto& kept = *std::make_unique<std::vector<Payload>>().release();
  const std::lock_guard lock(mutex);
  for (Loan& loan : loans_) kept.push_back(std::move(loan.payload));
}

bool ChannelWriter::write(Outgoing& message) {
  if (put_all(message)) return true;
  auto& waits = channel_.header().writer_waits;
  waits.store(1);
  if (!put_all(message)) return false;  // what was freed before the flag went up is seen here
  waits.store(0);
  return true;
}

bool ChannelWriter::put_all(Outgoing& message) {
  while (!message.begun || message.sent < message.encoded.payload.size())
    if (!put_record(message)) return false;
  return true;
}

bool ChannelWriter::put_record(Outgoing& message) {
  const auto payload = message.encoded.payload.bytes();
  const bool in_ring = payload.size() <= kInlineBytesMax;
  const auto lent = in_ring ? std::nullopt : lendable(message);
  const auto part =
      lent ? payload
           : payload.subspan(message.sent, std::min(payload.size() - message.sent, kSlotBytes));
  const std::span<const std::byte> control =
      message.begun ? std::span<const std::byte>() : message.encoded.control;
  const bool copied = !in_ring && !lent;
  if (copied && !message.begun && far_ahead()) return false;
  const auto slot = in_ring ? kInRing : lent ? free_loan() : free_slot();
  if (!slot) return false;
  const std::size_t bytes = sizeof(Record) + control.size() + (in_ring ? part.size() : 0);
  const auto to = reserve(aligned(bytes));
  if (to.empty()) return false;
  const Record record{static_cast<std::uint32_t>(control.size()),
                      static_cast<std::uint32_t>(part.size()),
                      static_cast<std::uint32_t>(payload.size()), *slot, lent.value_or(0)};
  std::memcpy(to.data(), &record, sizeof(record));
  std::ranges::copy(control, to.data() + sizeof(record));  // none in a continuation
  if (!in_ring) channel_.header().slots[*slot].busy.store(1, std::memory_order_relaxed);
  if (lent) {
    free_loans_.pop_back();
    loans_.push_back({*slot, message.encoded.payload});
    lent_bytes_ += payload.size();
  } else if (!part.empty()) {
    std::byte* const behind = to.data() + sizeof(record) + control.size();
    std::memcpy(in_ring ? behind : channel_.slot(*slot).data(), part.data(), part.size());
  }
  tail_ += aligned(bytes);
  if (copied) ahead_.push_back(tail_);
  message.begun = true;
  message.sent += part.size();
  publish();
  return true;
}

// Returns where the whole payload lies in memory that the reader sees, or nothing.
std::optional<std::uint64_t> ChannelWriter::lendable(const Outgoing& message) const {
  if (!lends_ || message.begun) return std::nullopt;
  return shareable_offset(message.encoded.payload.bytes());
}

std::optional<std::uint32_t> ChannelWriter::free_loan() {
  if (free_loans_.empty()) reclaim();
  if (free_loans_.empty()) return std::nullopt;
  return free_loans_.back();
}

void ChannelWriter::reclaim() {
  std::erase_if(loans_, [&](const Loan& loan) {
    if (channel_.header().slots[loan.slot].busy.load() != 0) return false;
    free_loans_.push_back(loan.slot);
    lent_bytes_ -= loan.payload.size();
    return true;
  });
}

// Returns contiguous room in the ring, or nothing.
std::span<std::byte> ChannelWriter::reserve(std::size_t bytes) {
  const std::uint64_t head = channel_.header().head.load();
  if (tail_ - head > kRingBytes) return {};  // the peer's doing: it is not read from any more
  std::size_t room = kRingBytes - (tail_ - head);
  const std::size_t at = tail_ % kRingBytes;
  if (const std::size_t rest = kRingBytes - at; rest < bytes) {
    if (room < rest + bytes) return {};
    const Record padding{0, 0, 0, kPadding};
    std::memcpy(channel_.ring().data() + at, &padding, sizeof(padding));
    tail_ += rest;
    room -= rest;
  }
  if (room < bytes) return {};
  return channel_.ring().subspan(tail_ % kRingBytes, bytes);
}

// The reader has some to read, and is to catch up before the next message begins.
bool ChannelWriter::far_ahead() {
  const std::uint64_t head = channel_.header().head.load();
  std::erase_if(ahead_, [&](std::uint64_t end) { return end <= head; });
  return ahead_.size() >= kSlotsAheadMax;
}

// Returns the lowest one, which is still in a cache.
std::optional<std::uint32_t> ChannelWriter::free_slot() const {
  for (std::uint32_t i = 0; i < kSlots; ++i)
    if (channel_.header().slots[i].busy.load() == 0) return i;
  return std::nullopt;
}

void ChannelWriter::publish() {
  channel_.header().tail.store(tail_);
  ring_if(channel_.header().reader_sleeps, *socket_);
}

// What a payload that lies in shared memory keeps alive: the memory and the way to tell the writer.
class ChannelReader::Freed {
 public:
  Freed(Channel of, std::shared_ptr<const Descriptor> socket, std::shared_ptr<Mapping> lent)
      : channel(std::move(of)), lent_(std::move(lent)), socket_(std::move(socket)) {}
  ~Freed() { end_reading(*socket_); }
  Freed(const Freed&) = delete;
  Freed& operator=(const Freed&) = delete;

  void slot(std::size_t index) {
    channel.header().slots[index].busy.store(0);
    ring_if(channel.header().writer_waits, *socket_);
  }

  void ring(std::uint64_t head) {
    channel.header().head.store(head);
    ring_if(channel.header().writer_waits, *socket_);
  }

  // Of the writer; empty when it lends nothing.
  std::span<const std::byte> memory() const {
    return lent_ ? lent_->bytes() : std::span<std::byte>();
  }

  Channel channel;
  // Handed out; payloads are released on any thread.
  std::atomic<std::size_t> held = 0;
  std::atomic<std::size_t> loans_held = 0;

 private:
  std::shared_ptr<Mapping> lent_;
  std::shared_ptr<const Descriptor> socket_;
};

ChannelReader::ChannelReader(Channel channel, std::shared_ptr<const Descriptor> socket,
                             std::shared_ptr<Mapping> lent)
    : freed_(std::make_shared<Freed>(std::move(channel), std::move(socket), std::move(lent))) {}

bool ChannelReader::ready() const {
  return freed_->channel.header().tail.load() != head_;
}

bool ChannelReader::sleep() {
  freed_->channel.header().reader_sleeps.store(1);
  return ready();
}

void ChannelReader::awake() {
  freed_->channel.header().reader_sleeps.store(0, std::memory_order_relaxed);
}

Result<std::optional<Frames>> ChannelReader::read() {
  const std::uint64_t tail = freed_->channel.header().tail.load(std::memory_order_acquire);
  while (true) {
    RUBATO_ASSIGN(const auto record, next_record(tail));
    if (!record) return std::nullopt;
    RUBATO_ASSIGN(const bool whole, take(*record, tail - head_));
    if (!whole) continue;
    return std::exchange(frames_, {});
  }
}

Result<std::optional<Record>> ChannelReader::next_record(std::uint64_t tail) {
  while (tail != head_) {
    const std::uint64_t waiting = tail - head_;
    if (waiting > kRingBytes || waiting % kAlign != 0) return corrupt("a tail of", tail);
    const std::size_t at = head_ % kRingBytes;
    Record record;
    std::memcpy(&record, freed_->channel.ring().data() + at, sizeof(record));
    if (record.slot != kPadding) return record;
    const std::size_t rest = kRingBytes - at;
    if (rest > waiting) return corrupt("padding of", rest);
    head_ += rest;
    freed_->ring(head_);
  }
  return std::nullopt;
}

// Takes one record out of the ring. Returns whether the message is whole.
Result<bool> ChannelReader::take(const Record& r, std::uint64_t waiting) {
  const bool in_ring = r.slot == kInRing;
  const bool lent = is_loan(r.slot);
  if (r.control_bytes > kControlBytesMax) return corrupt("a control frame of", r.control_bytes);
  if ((r.control_bytes == 0) != open_) return corrupt("a control frame out of place:", head_);
  if (!open_) total_ = r.payload_bytes;
  if (total_ > kPayloadBytesMax || r.payload_bytes != total_)
    return corrupt("a payload of", r.payload_bytes);
  const std::size_t left = total_ - (open_ ? assembled_bytes_ : 0);
  const std::size_t part = in_ring || lent ? total_ : std::min(left, kSlotBytes);
  if (r.part_bytes != part || ((in_ring || lent) && open_) || (in_ring && part > kInlineBytesMax))
    return corrupt("a part of", r.part_bytes);
  if (!in_ring && ((r.slot >= kSlots && !lent) || part == 0)) return corrupt("a slot", r.slot);
  const std::size_t memory = freed_->memory().size();
  if (lent && (r.offset > memory || part > memory - r.offset))
    return corrupt("a loan at", r.offset);
  const std::size_t bytes = sizeof(Record) + r.control_bytes + (in_ring ? part : 0);
  const std::size_t at = head_ % kRingBytes;
  if (aligned(bytes) > std::min(waiting, kRingBytes - at)) return corrupt("a record of", bytes);

  const auto data = freed_->channel.ring().subspan(at + sizeof(Record));
  if (!open_) {
    frames_.control.assign(data.begin(), data.begin() + r.control_bytes);
    assembled_bytes_ = 0;
  }
  if (in_ring) {
    frames_.payload = copied(data.subspan(r.control_bytes, part));
  } else if (lent ? freed_->loans_held.load() < kLoansHeldMax
                  : part == total_ && freed_->held.load() < kSlotsHeldMax) {
    frames_.payload = in_place(r);
  } else {
    append(bytes_of(r), r);
  }
  open_ = !in_ring && part < left;
  head_ += aligned(bytes);
  freed_->ring(head_);
  return !open_;
}

std::span<const std::byte> ChannelReader::bytes_of(const Record& record) const {
  if (is_loan(record.slot)) return freed_->memory().subspan(record.offset, record.part_bytes);
  return freed_->channel.slot(record.slot).first(record.part_bytes);
}

Payload ChannelReader::in_place(const Record& record) {
  struct Held {
    std::shared_ptr<Freed> freed;
    std::uint32_t slot;
    std::atomic<std::size_t>& count;
    Held(std::shared_ptr<Freed> f, std::uint32_t s)
        : freed(std::move(f)), slot(s), count(is_loan(s) ? freed->loans_held : freed->held) {
      ++count;
    }
    ~Held() {
      --count;
      freed->slot(slot);
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
  };
  Payload payload(std::allocate_shared<Held>(BlockAllocator<Held>(owners_), freed_, record.slot),
                  bytes_of(record));
  payload.set_shared();
  return payload;
}

Payload ChannelReader::copied(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const auto buffer = copies_.take();
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return Payload::of(buffer).slice(0, bytes.size());
}

void ChannelReader::append(std::span<const std::byte> part, const Record& record) {
  if (assembled_bytes_ == 0) assembled_ = std::make_shared_for_overwrite<std::byte[]>(total_);
  std::memcpy(assembled_.get() + assembled_bytes_, part.data(), part.size());
  freed_->slot(record.slot);
  assembled_bytes_ += part.size();
  if (assembled_bytes_ < total_) return;
  const std::span<const std::byte> bytes(assembled_.get(), total_);
  frames_.payload = {std::exchange(assembled_, nullptr), bytes};
}

}  // namespace rubato::proto::shm
