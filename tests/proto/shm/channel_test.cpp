// One direction of shared memory: any messages in any order of release against a plain queue, the
// smallest and the largest, and contents that no honest writer leaves.
#include "proto/shm/channel.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <rapidcheck.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>

#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>

#include "base/shareable.hpp"

namespace rubato::proto::shm {
namespace {

// Our own memory, as another process sees it.
std::shared_ptr<Mapping> lent() {
  start_sharing();
  return *map_for_reading(Descriptor(::dup(shareable_descriptor())));
}

std::shared_ptr<const Descriptor> shared(Descriptor fd) {
  return std::make_shared<const Descriptor>(std::move(fd));
}

struct Pair {
  explicit Pair(bool lends = false)
      : mapping(*map_memory_file(*make_memory_file(kRegionBytes), kRegionBytes)),
        writers(shared(*connect_locally(door.address))),
        readers(shared(*accept_locally(door.socket))),
        writer(Channel(mapping, 0), writers, lends),
        reader(Channel(mapping, 0), readers, lends ? lent() : nullptr) {}

  // The reader's bell, and the writer's.
  bool rang() const {
    bool any = false;
    for (const auto& socket : {readers, writers})
      for (auto parcel = receive_parcel(*socket); parcel && *parcel;
           parcel = receive_parcel(*socket))
        any |= is_bell(**parcel);
    return any;
  }
  std::shared_ptr<Mapping> mapping;
  Doorstep door = *listen_locally();
  std::shared_ptr<const Descriptor> writers, readers;  // the ends of the socket
  ChannelWriter writer;
  ChannelReader reader;
};

// Bytes that differ from place to place, made once, in memory that can be lent.
Payload pattern(std::size_t offset, std::size_t bytes) {
  static const auto all = [] {
    start_sharing();
    using Words = std::vector<std::uint32_t, ShareableAllocator<std::uint32_t>>;
    auto made = std::make_shared<Words>((kPayloadBytesMax + (1u << 20)) / 4);
    std::uint32_t word = 1;
    for (std::uint32_t& w : *made) w = word = word * 1'664'525 + 1'013'904'223;
    return made;
  }();
  return Payload(all, std::as_bytes(std::span(*all))).slice(offset, bytes);
}

Outgoing message(std::size_t control, std::size_t payload, std::size_t seed) {
  const Payload from = pattern(64 * seed, control);
  ControlFrame frame(control);
  std::ranges::copy(from.bytes(), frame.begin());
  return {{std::move(frame), pattern(64 * seed + 4, payload)}};
}

bool same(const Frames& frames, const Encoded& sent) {
  const auto a = frames.payload.bytes();
  const auto b = sent.payload.bytes();
  return std::ranges::equal(frames.control, sent.control) && a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

std::optional<Frames> read(ChannelReader& reader) {
  auto frames = reader.read();
  REQUIRE(frames);
  return std::move(*frames);
}

TEST_CASE("shm channel: any messages, payloads released in any order") {
  const bool ok = rc::check("what was written is read, in order", [] {
    Pair pair(*rc::gen::arbitrary<bool>());
    std::deque<Outgoing> queue;    // written at the latest when there is room
    std::deque<Encoded> expected;  // the reference
    std::vector<Frames> held;
    std::vector<Encoded> held_expected;
    const auto steps = *rc::gen::inRange(1, 40);
    for (int step = 0; step < steps || !expected.empty(); ++step) {
      const int action = step < steps ? *rc::gen::inRange(0, 4) : 1;
      if (action == 0 || action == 3) {
        const std::size_t control =
            *rc::gen::element<std::size_t>(16, 100, 5'000, kControlBytesMax);
        const std::size_t payload = *rc::gen::element<std::size_t>(
            0, 4, 1'000, kInlineBytesMax, kInlineBytesMax + 4, 300'000, kSlotBytes, kSlotBytes + 4,
            5 * kSlotBytes - 12, kPayloadBytesMax);
        queue.push_back(message(control, payload, static_cast<std::size_t>(step)));
        expected.push_back(queue.back().encoded);
      } else if (action == 1) {
        if (auto frames = read(pair.reader)) {
          RC_ASSERT(!expected.empty());
          RC_ASSERT(same(*frames, expected.front()));
          held.push_back(std::move(*frames));
          held_expected.push_back(expected.front());
          expected.pop_front();
        } else {
          RC_ASSERT(!queue.empty() || expected.empty());  // else a message was lost
        }
      } else if (!held.empty()) {
        const auto i = *rc::gen::inRange<std::size_t>(0, held.size());
        RC_ASSERT(same(held[i], held_expected[i]));  // nobody wrote over it
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
        held_expected.erase(held_expected.begin() + static_cast<std::ptrdiff_t>(i));
      }
      while (!queue.empty() && pair.writer.write(queue.front())) queue.pop_front();
    }
  });
  CHECK(ok);
}

TEST_CASE("shm channel: whole chunks are read where they lie, until half the slots are held") {
  Pair pair;
  const auto region = pair.mapping->bytes();
  std::vector<Frames> held;
  std::size_t in_place = 0;
  for (std::size_t i = 0; i < 2 * kSlots; ++i) {
    Outgoing out = message(16, kSlotBytes, i);
    REQUIRE(pair.writer.write(out));
    held.push_back(*read(pair.reader));
    const std::byte* data = held.back().payload.bytes().data();
    if (data >= region.data() && data < region.data() + region.size()) ++in_place;
  }
  CHECK(in_place == kSlotsHeldMax);
  for (std::size_t i = 0; i < held.size(); ++i)
    CHECK(same(held[i], message(16, kSlotBytes, i).encoded));
}

TEST_CASE(
    "shm channel: payloads are read in their writer's memory, until half the loans are held") {
  Pair pair(true);
  std::vector<Frames> held;
  const std::byte* here = pattern(4, kSlotBytes).bytes().data();
  for (std::size_t i = 0; i < 2 * kLoans; ++i) {
    Outgoing out = message(16, 20'000, 0);
    REQUIRE(pair.writer.write(out));
    held.push_back(*read(pair.reader));
    CHECK(same(held.back(), message(16, 20'000, 0).encoded));
    CHECK(held.back().payload.bytes().data() != here);  // through the other mapping, or a copy
  }
  // What lies in place is the same memory: a copy would not follow.
  auto values = std::make_shared<Floats>(20'000, 1.0f);
  Pair other(true);
  std::vector<Frames> followed;
  for (std::size_t i = 0; i < kLoansHeldMax + 1; ++i) {
    Outgoing out{{ControlFrame(16), Payload::of(values)}};
    REQUIRE(other.writer.write(out));
    followed.push_back(*read(other.reader));
  }
  values->front() = 2.0f;
  std::vector<float> scratch;
  for (std::size_t i = 0; i < followed.size(); ++i)
    CHECK(followed[i].payload.floats(scratch).front() == (i < kLoansHeldMax ? 2.0f : 1.0f));
}

TEST_CASE("shm channel: what is lent is kept until it is given back or its reader is gone") {
  for (const bool gone : {false, true}) {
    CAPTURE(gone);
    Pair pair(true);
    auto values = std::make_shared<Floats>(20'000, 1.0f);
    const std::weak_ptr<Floats> watched = values;
    Outgoing out{{ControlFrame(16), Payload::of(std::move(values))}};
    REQUIRE(pair.writer.write(out));
    out = {};
    auto frames = read(pair.reader);
    pair.writer.reclaim();
    CHECK(pair.writer.lending());
    CHECK(!watched.expired());
    if (gone) {
      pair.writer.on_reader_gone();
    } else {
      frames.reset();
      pair.writer.reclaim();
    }
    CHECK(!pair.writer.lending());
    CHECK(watched.expired());
  }
}

TEST_CASE("shm channel: what is lent when the writer ends is never written again") {
  std::optional<Frames> frames;
  std::weak_ptr<Floats> watched;
  {
    Pair pair(true);
    auto values = std::make_shared<Floats>(20'000, 1.0f);
    watched = values;
    Outgoing out{{ControlFrame(16), Payload::of(std::move(values))}};
    REQUIRE(pair.writer.write(out));
    frames = read(pair.reader);
  }
  CHECK(!watched.expired());
  const Floats others(20'000, 2.0f);
  std::vector<float> scratch;
  CHECK(std::ranges::count(frames->payload.floats(scratch), 1.0f) == 20'000);
}

// Writes `out`, or says that the writer is far enough ahead and keeps it.
bool write_chunk(Pair& pair, Outgoing& out, std::size_t seed) {
  if (!pair.writer.write(out)) return false;
  out = message(16, kSlotBytes, seed);
  return true;
}

TEST_CASE("shm channel: a writer is a few chunks ahead, however many are held") {
  Pair pair;
  Outgoing out = message(16, kSlotBytes, 0);
  std::vector<Frames> held;
  for (std::size_t ahead = 0; ahead < kSlotsAheadMax; ++ahead) REQUIRE(write_chunk(pair, out, 0));
  for (std::size_t i = 0; i < 2 * kSlots; ++i) {
    CHECK(!write_chunk(pair, out, i));
    CHECK(!pair.rang());
    held.push_back(*read(pair.reader));
    CHECK(pair.rang());  // the writer waits
    REQUIRE(write_chunk(pair, out, i));
  }
}

TEST_CASE("shm channel: a reader that keeps up is sent through the lowest slots") {
  Pair pair;
  const std::byte* const first = Channel(pair.mapping, 0).slot(0).data();
  Outgoing out = message(16, kSlotBytes, 0);
  for (std::size_t i = 0; i < 4 * kSlots; ++i) {
    while (write_chunk(pair, out, i)) {
    }
    const auto frames = read(pair.reader);
    REQUIRE(frames);
    const auto at = static_cast<std::size_t>(frames->payload.bytes().data() - first);
    CHECK(at <= kSlotsAheadMax * kSlotBytes);
  }
}

TEST_CASE("shm channel: bells ring only for who asked") {
  Pair pair;
  Outgoing out = message(16, 100, 1);
  REQUIRE(pair.writer.write(out));
  CHECK(!pair.rang());
  CHECK(pair.reader.sleep());  // something is there
  pair.reader.awake();
  REQUIRE(read(pair.reader));
  CHECK(!pair.reader.sleep());
  Outgoing next = message(16, 100, 2);
  REQUIRE(pair.writer.write(next));
  CHECK(pair.rang());
  REQUIRE(read(pair.reader));
  std::size_t written = 0;
  Outgoing chunk = message(16, kSlotBytes, 3);
  while (pair.writer.write(chunk)) {
    ++written;
    chunk = message(16, kSlotBytes, 3);
  }
  CHECK(written == kSlotsAheadMax);
  CHECK(!pair.rang());
  REQUIRE(read(pair.reader));  // gives its slot back at once
  CHECK(pair.rang());
  CHECK(pair.writer.write(chunk));
}

// --- a peer that is no friend --------------------------------------------------------------------

ChannelHeader& header(const Pair& pair) {
  return *reinterpret_cast<ChannelHeader*>(pair.mapping->bytes().data());
}

// Leaves a record as the other process might, with the tail behind it.
void forge(const Pair& pair, const Record& record, std::uint64_t tail) {
  const Channel channel(pair.mapping, 0);
  std::memcpy(channel.ring().data(), &record, sizeof(record));
  header(pair).tail.store(tail);
}

TEST_CASE("shm channel: every wrong record is an error") {
  const std::uint32_t mib = 1u << 20;
  const auto control_max = static_cast<std::uint32_t>(kControlBytesMax);
  const Record wrong[] = {
      {0, 0, 0, kInRing},                // no control frame
      {control_max + 1, 0, 0, kInRing},  // too large a one
      {0xffff'fff0, 0, 0, kInRing},      //
      {16, 8, 4, kInRing},               // a part larger than the payload
      {16, 4, 8, kInRing},               // a part of a payload in the ring
      {16, 20'000, 20'000, kInRing},     // too large for the ring
      {16, 100, 100, kInRing},           // beyond the tail
      {16, mib, mib, kSlots},            // no such slot
      {16, mib, mib, 0x7fff'ffff},       //
      {16, 0, 0, 0},                     // a slot for nothing
      {16, 2 * mib, 2 * mib, 0},         // more than a slot
      {16, 1, 0x7fff'ffff, 0},           // more than any payload
      {0, 0, 0, kPadding},               // padding beyond the tail
  };
  for (const Record& record : wrong) {
    CAPTURE(record.control_bytes);
    CAPTURE(record.part_bytes);
    CAPTURE(record.slot);
    Pair pair;
    forge(pair, record, 32);
    const auto read = pair.reader.read();
    REQUIRE(!read);
    CHECK(read.error().code == ErrorCode::Corrupt);
  }
}

TEST_CASE("shm channel: a loan beyond the writer's memory is an error") {
  const std::uint64_t end = lent()->bytes().size();
  const std::uint32_t bytes = 100'000;
  for (const std::uint64_t offset : {end - bytes + 1, end, end + 1, ~std::uint64_t{0}}) {
    CAPTURE(offset);
    Pair pair(true);
    forge(pair, {16, bytes, bytes, kSlots, offset}, 64);
    const auto read = pair.reader.read();
    REQUIRE(!read);
    CHECK(read.error().code == ErrorCode::Corrupt);
  }
  Pair pair(true);
  forge(pair, {16, bytes, bytes, kSlots, end - bytes}, 64);
  CHECK(pair.reader.read());
}

TEST_CASE("shm channel: every wrong tail is an error") {
  for (const std::uint64_t tail :
       {std::uint64_t{1}, std::uint64_t{17}, std::uint64_t{kRingBytes + 16}, std::uint64_t{1} << 63,
        ~std::uint64_t{0}}) {
    CAPTURE(tail);
    Pair pair;
    forge(pair, {16, 0, 0, kInRing}, tail);
    CHECK(!pair.reader.read());
  }
}

TEST_CASE("shm channel: random bytes in all of it crash nobody") {
  const bool ok = rc::check("an error, or frames within the limits", [] {
    Pair pair;
    const Channel channel(pair.mapping, 0);
    const auto words = *rc::gen::container<std::vector<std::uint32_t>>(
        64,
        rc::gen::oneOf(rc::gen::arbitrary<std::uint32_t>(), rc::gen::inRange<std::uint32_t>(0, 64),
                       rc::gen::element(kInRing, kPadding)));
    std::memcpy(channel.ring().data(), words.data(), words.size() * sizeof(words[0]));
    header(pair).tail.store(16 * *rc::gen::inRange<std::uint64_t>(0, kRingBytes / 16 + 2));
    header(pair).head.store(*rc::gen::arbitrary<std::uint64_t>());
    for (auto& slot : header(pair).slots) slot.busy.store(*rc::gen::arbitrary<std::uint32_t>());
    while (true) {
      const auto frames = pair.reader.read();
      if (!frames || !*frames) break;
      RC_ASSERT((*frames)->control.size() <= kControlBytesMax);
      RC_ASSERT((*frames)->payload.size() <= kPayloadBytesMax);
    }
    Outgoing out = message(100, 3 * kSlotBytes, 1);
    (void)pair.writer.write(out);  // whatever the reader pretends
  });
  CHECK(ok);
}

TEST_CASE("shm region: a bell wakes the other end, which cannot block or end who rings") {
  const Doorstep door = *listen_locally();
  const Descriptor ours = *connect_locally(door.address);
  {
    const Descriptor theirs = *accept_locally(door.socket);
    REQUIRE(!*receive_parcel(theirs));
    ring_bell(ours);
    const auto parcel = receive_parcel(theirs);
    REQUIRE((parcel && *parcel));
    CHECK(is_bell(**parcel));
    CHECK(!*receive_parcel(theirs));
    // Nobody reads any more, and it does not matter what a flag of either end says.
    REQUIRE(::fcntl(ours.get(), F_SETFL, 0) == 0);
    for (int i = 0; i < 100'000; ++i) ring_bell(ours);
    CHECK(*receive_parcel(theirs));
  }
  ring_bell(ours);
  ring_bell(ours);
  REQUIRE(::fcntl(ours.get(), F_SETFL, O_NONBLOCK) == 0);
  CHECK(!receive_parcel(ours));
}

TEST_CASE("shm region: only sealed memory of the right size is mapped") {
  const auto good = make_memory_file(kRegionBytes);
  REQUIRE(good);
  CHECK(map_memory_file(*good, kRegionBytes));
  CHECK(!map_memory_file(*good, 2 * kRegionBytes));
  CHECK(::ftruncate(good->get(), 4096) != 0);  // no SIGBUS by a peer that shrinks it
  const Descriptor unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), static_cast<off_t>(kRegionBytes)) == 0);
  CHECK(!map_memory_file(unsealed, kRegionBytes));
  const Descriptor file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK(!map_memory_file(file, kRegionBytes));
  CHECK(!map_for_reading(unsealed));
  CHECK(!map_for_reading(file));
  // Sealed, but of reserved pages: where none is left, reading one raises SIGBUS.
  const Descriptor large(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  constexpr off_t kBytes = 2 << 20;
  if (!large || ::ftruncate(large.get(), kBytes) != 0 ||
      ::fcntl(large.get(), F_ADD_SEALS, kAll) != 0) {
    MESSAGE("skipped: this kernel makes no sealed memory of reserved pages (MFD_HUGETLB)");
    return;
  }
  CHECK(!map_for_reading(large));
  CHECK(!map_memory_file(large, kBytes));
}

TEST_CASE("shm region: memory that is lent cannot be opened again for writing") {
  const auto lent = make_lent_memory(1 << 20);
  REQUIRE(lent);
  lent->mapping->bytes()[7] = std::byte{42};  // its owner writes
  if ((::fcntl(lent->file.get(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE) == 0) {
    MESSAGE("skipped: this kernel has no F_SEAL_FUTURE_WRITE");
    return;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(lent->file.get());
  const Descriptor again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(again);
  CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0) == MAP_FAILED);
  const char byte = 1;
  CHECK(::pwrite(again.get(), &byte, 1, 7) == -1);
  CHECK(!map_memory_file(again, 1 << 20));
  const auto reading = map_for_reading(again);
  REQUIRE(reading);
  CHECK((*reading)->bytes()[7] == std::byte{42});
  CHECK(::mprotect((*reading)->bytes().data(), 4096, PROT_READ | PROT_WRITE) == -1);
  lent->mapping->bytes()[7] = std::byte{43};
  CHECK((*reading)->bytes()[7] == std::byte{43});
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator(maps), {}, '\n'));
}

TEST_CASE("shm region: a mapping that is over leaves nothing of the room it was placed in") {
  constexpr std::size_t kBytes = 3 * 4096;  // fewer than what whole_pages() counts as one
  const auto regions = [] {
    std::vector<std::shared_ptr<Mapping>> made;
    const Descriptor region = *make_memory_file(kBytes);
    for (int i = 0; i < 64; ++i) made.push_back(*map_memory_file(region, kBytes));
    return made.size();
  };
  regions();  // the heap has grown
  const std::size_t before = mappings();
  CHECK(regions() == 64);
  CHECK(mappings() <= before);
}

}  // namespace
}  // namespace rubato::proto::shm
