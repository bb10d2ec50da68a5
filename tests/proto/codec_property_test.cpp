// The codec under any message and any damage: nothing is lost, nothing damaged is believed, and
// bytes that a hostile peer made consistent never crash it (run under asan and ubsan).
#include <doctest/doctest.h>
#include <rapidcheck.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/rng.hpp"
#include "base/utf8.hpp"
#include "proto/codec.hpp"
#include "tests/proto/samples.hpp"

namespace rubato::proto {
namespace {

constexpr std::size_t kPrefixBytes = 16;
constexpr std::size_t kChecksumAt = 8;

template <class T>
T any() {
  return *rc::gen::arbitrary<T>();
}

std::uint64_t any_count() {
  return *rc::gen::inRange<std::uint64_t>(0, 300);
}

std::uint64_t any_number() {
  return *rc::gen::inRange<std::uint64_t>(0, kNumberMax + 1);
}

std::vector<std::uint64_t> any_numbers() {
  std::vector<std::uint64_t> all(any_count());
  for (std::uint64_t& each : all) each = any_number();
  return all;
}

Duration any_duration() {
  return {*rc::gen::inRange<std::int64_t>(0, kSpanMax.ns + 1)};
}

Instant any_clock() {
  return {*rc::gen::inRange<std::int64_t>(0, (std::int64_t{1} << 61) + 1)};
}

std::string any_text() {
  return any<std::string>();
}

std::string any_name() {
  return printable(any_text());
}

// A chunk and its payload.
template <class Chunk>
Message with_chunk(Chunk chunk) {
  chunk.count = any_count();
  const std::uint64_t before = chunk.count == 0 ? 0 : any<std::uint32_t>();
  const std::uint64_t after = chunk.count == 0 ? 0 : any<std::uint32_t>();
  chunk.offset = before;
  chunk.total = before + chunk.count + after;
  return samples::message(chunk, samples::floats(chunk.count));
}

Message any_welcome() {
  Welcome m;
  m.you = {static_cast<Role>(*rc::gen::inRange(0, 4)), any<std::uint32_t>()};
  m.parameters = any<std::uint32_t>();
  const auto shards = *rc::gen::inRange<std::uint32_t>(1, 8);
  for (std::uint32_t i = 0; i < shards; ++i)
    m.shards.shards.push_back({shard_range(m.parameters, i, shards), any_name()});
  m.range = m.shards.shards.back().range;
  m.setbacks = any<std::uint32_t>();
  m.looks = any<bool>();
  return samples::message(m);
}

Message any_members() {
  Members m{any_number(), {}};
  m.setbacks = any<std::uint32_t>();
  m.back_to = any_number();
  m.evaluator = any<std::uint64_t>();
  m.members.resize(any_count());
  for (Member& member : m.members) member = {WorkerId{any<std::uint32_t>()}, any<std::uint64_t>()};
  m.phase.number = any<std::uint32_t>();
  for (auto count = any_count(); count > 0; --count)
    m.phase.apart[WorkerId{any<std::uint32_t>()}] = {any_number(), any<bool>()};
  return samples::message(m);
}

Message any_progress() {
  Progress m;
  m.steps = any_number();
  m.commits = any_number();
  m.step_time = any_duration();
  m.overhead = any_duration();
  m.loss = any<double>();
  m.loss_samples = any_number();
  m.compute = any_duration();
  m.wait = any_duration();
  m.communicate = any_duration();
  m.bytes_up = any_number();
  m.bytes_down = any_number();
  m.late = any_duration();
  m.dropped_commits = any_number();
  m.dropped_samples = any_number();
  m.batch = any<std::uint32_t>();
  return samples::message(m);
}

Message any_heartbeat() {
  Heartbeat m{any_clock(), any_clock(), any_number()};
  m.standings.resize(*rc::gen::inRange<std::size_t>(0, kStandingsMax + 1));
  for (Standing& s : m.standings)
    s = {WorkerId{any<std::uint32_t>()},
         any<std::uint64_t>(),
         any_duration(),
         any_duration(),
         any<std::uint32_t>(),
         any<std::uint32_t>(),
         any<std::uint32_t>(),
         {any_number(), any_number(), any_number(), any_number()}};
  m.broken = any<bool>();
  return samples::message(m);
}

Message any_body(std::size_t kind) {
  using samples::message;
  switch (kind) {
    case 0:
      return message(Hello{any_name(), any_number(), any_name(), any_text()});
    case 1:
      return any_welcome();
    case 2:
      return message(Refusal{static_cast<RefusalCode>(*rc::gen::inRange(0, 10)), any_text()});
    case 3:
      return message(Start{});
    case 4:
      return message(Leave{any_text()});
    case 5:
      return message(Stop{any_text()});
    case 6:
      return any_members();
    case 7:
      return message(MembersAck{any_number(), any_clock()});
    case 8:
      return message(Pull{any_number(), any_numbers()});
    case 9:
      return with_chunk(Commit{any_number(),
                               0,
                               0,
                               0,
                               any_number(),
                               {},
                               any<bool>(),
                               static_cast<PayloadCodec>(*rc::gen::inRange(0, 5)),
                               1.0 / (1 + any<std::uint32_t>()),
                               any<bool>(),
                               1.0 / (1 + any<std::uint32_t>())});
    case 10:
      return with_chunk(Parameters{
          any_number(), any_number(), 0, 0, 0, any_duration(), any<bool>(), {}, any<bool>()});
    case 11:
      return message(Probe{any_number(), any<std::uint32_t>()});
    case 12:
      return message(ProbeReply{any_number(), any<bool>(), any_numbers(), any<bool>(), any<bool>(),
                                any<std::uint32_t>()});
    case 13:
      return any_progress();
    case 14:
      return any_heartbeat();
    case 15:
      return message(Directive{1.0 + any<std::uint32_t>(), any<std::uint32_t>(), any_duration(),
                               1.0 / (1 + any<std::uint32_t>())});
    case 16:
      return message(Evaluation{any_duration(),
                                any<double>(),
                                any<double>(),
                                any_number(),
                                any_number(),
                                any<double>(),
                                any<double>(),
                                any<double>(),
                                {any<double>(), any<double>(), any<double>()}});
    case 17:
      return message(Save{any_number(), any_number(), any_clock(), any_duration()});
    case 18:
      return message(Status{any<std::string>()});
    default:
      return message(Notice{any<std::string>(), any<bool>()});
  }
}

Message any_message() {
  Message m = any_body(*rc::gen::inRange<std::size_t>(0, std::variant_size_v<Body>));
  m.cluster = any<std::uint64_t>();
  m.sender = {static_cast<Role>(*rc::gen::inRange(0, 4)), any<std::uint32_t>()};
  m.incarnation = any<std::uint64_t>();
  m.sent = any_clock();
  return m;
}

void flip(std::vector<std::byte>& bytes, std::size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
}

void repair_checksum(std::vector<std::byte>& control) {
  const std::uint64_t sum =
      XXH3_64bits(control.data() + kPrefixBytes, control.size() - kPrefixBytes);
  std::memcpy(control.data() + kChecksumAt, &sum, sizeof(sum));
}

TEST_CASE("any message comes back as it went, from any address") {
  CHECK(rc::check([] {
    const Message message = any_message();
    const Encoded encoded = encode(message);
    const auto shift = *rc::gen::inRange<std::size_t>(0, 9);
    std::vector<std::byte> moved(encoded.control.size() + shift);
    std::copy(encoded.control.begin(), encoded.control.end(),
              moved.begin() + static_cast<std::ptrdiff_t>(shift));
    const auto decoded = decode(std::span(moved).subspan(shift), encoded.payload);
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(samples::same(message, *decoded));
  }));
}

TEST_CASE("every flipped bit of either frame is noticed") {
  CHECK(rc::check([] {
    const Encoded encoded = encode(any_message());
    for (std::size_t bit = 0; bit < 8 * encoded.control.size(); ++bit) {
      std::vector<std::byte> control(encoded.control.begin(), encoded.control.end());
      flip(control, bit);
      RC_ASSERT(!decode(control, encoded.payload).has_value());
    }
    const auto bytes = encoded.payload.bytes();
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      auto payload = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
      flip(*payload, bit);
      RC_ASSERT(!decode(encoded.control, Payload::of(std::move(payload))).has_value());
    }
  }));
}

TEST_CASE("every truncation of either frame is noticed") {
  CHECK(rc::check([] {
    const Encoded encoded = encode(any_message());
    for (std::size_t size = 0; size < encoded.control.size(); ++size)
      RC_ASSERT(!decode(std::span(encoded.control).first(size), encoded.payload).has_value());
    for (std::size_t size = 0; size < encoded.payload.size(); ++size)
      RC_ASSERT(!decode(encoded.control, encoded.payload.slice(0, size)).has_value());
  }));
}

// What passes the checksum may be anything; what decodes must be a message we could send ourselves.
void check_hostile(std::vector<std::byte> control, const Payload& payload) {
  repair_checksum(control);
  const auto decoded = decode(control, payload);
  if (!decoded) return;
  const Encoded again = encode(*decoded);
  CHECK(decode(again.control, again.payload).has_value());
}

TEST_CASE("every byte of every body damaged behind a valid checksum") {
  for (const Message& message : samples::every_message()) {
    const Encoded encoded = encode(message);
    for (std::size_t i = kPrefixBytes; i < encoded.control.size(); ++i) {
      for (const unsigned value : {0x00U, 0x01U, 0x7fU, 0x80U, 0xffU}) {
        std::vector<std::byte> control(encoded.control.begin(), encoded.control.end());
        control[i] = static_cast<std::byte>(value);
        check_hostile(std::move(control), encoded.payload);
      }
    }
  }
}

TEST_CASE("several bytes damaged, and the end cut off, behind a valid checksum") {
  CHECK(rc::check([] {
    const Encoded encoded = encode(any_message());
    Rng rng(any<std::uint64_t>());
    for (int damaged = 0; damaged < 300; ++damaged) {
      std::vector<std::byte> control(encoded.control.begin(), encoded.control.end());
      const std::size_t table_bytes = control.size() - kPrefixBytes;
      if (rng.below(4) == 0) control.resize(kPrefixBytes + 1 + rng.below(table_bytes));
      for (std::uint64_t i = 0; i <= rng.below(5); ++i) {
        const std::uint64_t at = kPrefixBytes + rng.below(control.size() - kPrefixBytes);
        control[at] = static_cast<std::byte>(rng.next());
      }
      check_hostile(std::move(control), encoded.payload);
    }
  }));
}

}  // namespace
}  // namespace rubato::proto
