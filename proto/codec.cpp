#include "proto/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/checksum.hpp"
#include "base/rng.hpp"
#include "base/utf8.hpp"
#include "proto/compression.hpp"
#include "proto/identity.hpp"
#include "rubato_generated.h"

namespace rubato::proto {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");
using flatbuffers::Offset;
using Builder = flatbuffers::FlatBufferBuilder;
using Bytes = std::span<const std::byte>;

// The first bytes of every control frame. The first 8 keep their meaning in all versions.
struct Prefix {
  char magic[4] = {'R', 'B', 'T', 'O'};
  std::uint16_t version = kProtocolVersion;
  std::uint16_t reserved = 0;
  std::uint64_t xxh3 = 0;  // of the rest of the control frame
};
static_assert(sizeof(Prefix) == 16 && std::is_trivially_copyable_v<Prefix>);

// In place of the checksum of a payload that never leaves its host. Not 0, so that the field is
// written and a message costs the same bytes on every transport.
constexpr std::uint64_t kNoChecksum = ~std::uint64_t{0};

// --- writing: one overload a body ----------------------------------------------------------------

Offset<flatbuffers::String> text(Builder& b, const std::string& s) {
  return b.CreateString(s.data(), std::min(s.size(), kTextBytesMax));
}
auto offsets(Builder& b, const std::vector<std::uint64_t>& list) {
  return b.CreateVector(list.data(), std::min(list.size(), kMissingOffsetsMax));
}

// Left out where it is empty.
Offset<flatbuffers::String> key(Builder& b, const std::string& s) {
  return s.empty() ? 0 : b.CreateString(s);
}

auto write(Builder& b, const Hello& m) {
  const auto name = b.CreateString(m.name), endpoint = b.CreateString(m.endpoint);
  const auto settings = m.settings.empty() ? 0 : b.CreateString(m.settings);
  std::vector<wire::SnapshotInfo> snapshots;
  for (const SnapshotInfo& s : m.snapshots)
    snapshots.emplace_back(s.run, s.number, s.commits, s.begin);
  const auto list = snapshots.empty() ? 0 : b.CreateVectorOfStructs(snapshots);
  const auto public_key = key(b, m.public_key);
  const auto trouble = m.trouble.empty() ? 0 : text(b, m.trouble);
  return wire::CreateHello(b, name, m.parameters, endpoint, settings, list, m.again, public_key,
                           m.looks, trouble, m.left_out, m.keeps);
}
auto write(Builder& b, const Welcome& m) {
  std::vector<Offset<wire::ShardEntry>> entries;
  entries.reserve(m.shards.shards.size());
  for (const ShardEntry& entry : m.shards.shards) {
    const wire::ShardRange range(entry.range.begin, entry.range.end);
    entries.push_back(wire::CreateShardEntry(b, &range, b.CreateString(entry.endpoint),
                                             key(b, entry.public_key)));
  }
  const wire::ShardRange range(m.range.begin, m.range.end);
  return wire::CreateWelcome(b, static_cast<wire::Role>(m.you.role), m.you.index, m.parameters,
                             &range, b.CreateVector(entries), m.snapshot, m.steps, m.setbacks,
                             m.looks);
}

auto write(Builder& b, const Refusal& m) {
  return wire::CreateRefusal(b, static_cast<wire::RefusalCode>(m.code), text(b, m.message),
                             m.whose);
}
auto write(Builder& b, const Start& m) {
  return wire::CreateStart(b, m.seeding);
}
auto write(Builder& b, const Leave& m) {
  return wire::CreateLeave(b, text(b, m.reason));
}
auto write(Builder& b, const Stop& m) {
  return wire::CreateStop(b, text(b, m.reason), m.failed);
}
auto write(Builder& b, const Notice& m) {
  return wire::CreateNotice(b, text(b, m.text), m.rejoin);
}
auto write(Builder& b, const Save& m) {
  return wire::CreateSave(b, m.number, m.keep, m.clock.ns, m.ago.ns);
}

auto write(Builder& b, const Members& m) {
  std::vector<wire::Member> members;
  members.reserve(m.members.size());
  for (const Member& member : m.members)
    members.emplace_back(member.incarnation, member.worker.value);
  const auto list = b.CreateVectorOfStructs(members);
  std::vector<wire::Apart> apart;
  apart.reserve(m.phase.apart.size());
  for (const auto& [worker, how] : m.phase.apart)
    apart.emplace_back(how.from, worker.value, how.excluded);
  const auto others = apart.empty() ? 0 : b.CreateVectorOfStructs(apart);
  return wire::CreateMembers(b, m.epoch, list, m.phase.number, others, m.setbacks, m.back_to,
                             m.seeding, m.seeder.value, m.evaluator);
}

auto write(Builder& b, const MembersAck& m) {
  return wire::CreateMembersAck(b, m.epoch, m.clock.ns);
}
auto write(Builder& b, const Pull& m) {
  return wire::CreatePull(b, m.sequence, offsets(b, m.offsets), m.latest);
}
auto write(Builder& b, const Commit& m) {
  return wire::CreateCommit(
      b, m.sequence, m.offset, m.count, m.total, m.steps, static_cast<wire::PayloadCodec>(m.codec),
      m.discard, static_cast<wire::PayloadCodec>(m.reply_codec), m.reply_keep, m.reply_based,
      m.weight, m.elastic, m.began, m.round, m.seeding, m.averaged);
}
auto write(Builder& b, const Parameters& m) {
  return wire::CreateParameters(b, m.sequence, m.version, m.offset, m.count, m.total, m.held.ns,
                                m.refused, static_cast<wire::PayloadCodec>(m.codec), m.noted,
                                m.restores, m.round, m.averaged, m.dropped);
}
auto write(Builder& b, const Probe& m) {
  return wire::CreateProbe(b, m.sequence, m.number);
}
auto write(Builder& b, const ProbeReply& m) {
  return wire::CreateProbeReply(b, m.sequence, m.held, offsets(b, m.missing_offsets), m.unknown,
                                m.answered, m.number);
}
auto write(Builder& b, const Progress& m) {
  return wire::CreateProgress(b, m.steps, m.commits, m.step_time.ns, m.overhead.ns, m.loss,
                              m.loss_samples, m.compute.ns, m.wait.ns, m.communicate.ns, m.bytes_up,
                              m.bytes_down, m.batch, m.alignment.own, m.alignment.during, m.late.ns,
                              m.dropped_commits, m.dropped_samples);
}
// Links that compress what they carry must not make it short.
std::vector<std::uint8_t> fill_of(std::uint32_t bytes) {
  std::vector<std::uint8_t> fill(bytes);
  Rng rng(bytes, 0, 0);
  for (auto& each : fill) each = static_cast<std::uint8_t>(rng.next());
  return fill;
}
auto write(Builder& b, const Heartbeat& m) {
  std::vector<wire::Standing> standings;
  for (const Standing& s : m.standings)
    standings.emplace_back(s.incarnation, s.waited.ns, s.usual.ns, s.refused[0], s.refused[1],
                           s.refused[2], s.refused[3], s.worker.value, s.waiting, s.in_a_row,
                           s.others);
  const auto list = standings.empty() ? 0 : b.CreateVectorOfStructs(standings);
  const auto fill = m.fill == 0 ? 0 : b.CreateVector(fill_of(m.fill));
  return wire::CreateHeartbeat(b, m.echo.ns, m.clock.ns, m.saved, list, m.broken, m.saving,
                               m.commits, m.seeded, m.wants_snapshot, fill);
}
auto write(Builder& b, const Directive& m) {
  return wire::CreateDirective(b, m.commit_rate, m.local_steps, m.period.ns, m.weight, m.batch,
                               m.local_rate, m.quick_steps);
}
auto write(Builder& b, const Evaluation& m) {
  return wire::CreateEvaluation(b, m.age.ns, m.loss, m.accuracy, m.version, m.samples,
                                m.target_mean, m.target_square, m.classes.recall, m.classes.f1,
                                m.classes.auc, m.squared_error,
                                m.gap.value_or(std::numeric_limits<double>::quiet_NaN()));
}
auto written_part(Builder& b, const TextPart& part) {
  return wire::CreateTextPart(b, b.CreateString(part.bytes), part.offset, part.total);
}
auto write(Builder& b, const Describe& m) {
  return wire::CreateDescribe(b, b.CreateString(m.name), written_part(b, m.summary), m.schema_at);
}
auto write(Builder& b, const Described& m) {
  return wire::CreateDescribed(b, m.bytes);
}
auto write(Builder& b, const Schema& m) {
  return wire::CreateSchema(b, written_part(b, m.text));
}
auto write(Builder& b, const AskStatus& m) {
  return wire::CreateAskStatus(b, m.fill == 0 ? 0 : b.CreateVector(fill_of(m.fill)));
}
auto write(Builder& b, const Status& m) {
  return wire::CreateStatus(b, b.CreateString(m.text));
}

struct WrittenBody {
  wire::Body type = wire::Body::NONE;
  Offset<void> offset = {};
};

template <class Table>
WrittenBody written(Offset<Table> table) {
  return {wire::BodyTraits<Table>::enum_value, table.Union()};
}

// --- reading: one overload a body, each range-checks what FlatBuffers' verifier cannot know ------

template <class... Args>
tl::unexpected<Error> corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::Corrupt, fmt::format(format, std::forward<Args>(args)...));
}

Result<std::string> read_text(const char* field, const flatbuffers::String& s) {
  if (s.size() > kTextBytesMax)
    return corrupt("{} is {} bytes long; the limit is {}", field, s.size(), kTextBytesMax);
  return s.str();
}

// A name or an address, which is shown to people: nothing in it is hidden from them.
Result<std::string> read_name(const char* field, const flatbuffers::String& s) {
  RUBATO_ASSIGN(auto name, read_text(field, s));
  if (const auto hidden = hidden_in(name))
    return corrupt("{} \"{}\" holds {}, which is not shown: choose another", field, name, *hidden);
  return name;
}

Result<TextPart> read_part(const char* field, const wire::TextPart& t) {
  const std::uint64_t size = t.bytes()->size();
  if (size > kTextPartMax)
    return corrupt("{} has a part of {} bytes; the limit is {}", field, size, kTextPartMax);
  if (t.total() > kLongTextMax || t.offset() > t.total() || size > t.total() - t.offset())
    return corrupt("{} has {} bytes at {} of {}; the limit is {}", field, size, t.offset(),
                   t.total(), kLongTextMax);
  return TextPart{t.bytes()->str(), t.offset(), t.total()};
}

// Empty, or as long as every key is.
Result<std::string> read_key(const char* field, const flatbuffers::String* s) {
  if (!s) return std::string();
  if (s->size() != kKeyCharacters) return corrupt("{} is no key", field);
  return s->str();
}

Result<Role> read_role(const char* field, wire::Role role) {
  if (role > wire::Role::MAX) return corrupt("{} {} is unknown", field, static_cast<int>(role));
  return static_cast<Role>(role);
}

Result<ElementRange> read_range(const wire::ShardRange& r, std::uint64_t parameters) {
  if (r.begin() > r.end() || r.end() > parameters)
    return corrupt("shard range [{}, {}) does not fit {} parameters", r.begin(), r.end(),
                   parameters);
  return ElementRange{r.begin(), r.end()};
}

tl::unexpected<Error> unknown_codec(const char* field, wire::PayloadCodec codec) {
  return corrupt("{} {} is unknown", field, static_cast<int>(codec));
}
tl::unexpected<Error> not_within(const char* field, double value, double max) {
  return corrupt("{} {} is not above 0 and up to {:g}", field, value, max);
}

template <class... Nanoseconds>
Result<void> check_durations(const char* name, Nanoseconds... ns) {
  if (std::min({std::int64_t{0}, ns...}) < 0) return corrupt("{} has a negative duration", name);
  if (std::max({std::int64_t{0}, ns...}) > kSpanMax.ns)
    return corrupt("{} has a duration of years", name);
  return {};
}

// Readings of a steady clock: sums and differences of two stay in range.
template <class... Nanoseconds>
Result<void> check_clocks(const char* name, Nanoseconds... ns) {
  if (std::min({ns...}) < 0 || std::max({ns...}) > kClockMax.ns)
    return corrupt("{} holds no reading of a clock", name);
  return {};
}

template <class... Numbers>
Result<void> check_numbers(const char* name, Numbers... numbers) {
  const std::uint64_t most = std::max({std::uint64_t{numbers}...});
  if (most > kNumberMax) return corrupt("{} holds {}, which is no number of ours", name, most);
  return {};
}

// The elements of a vector. The verifier does not look at where they begin, so that they are copied
// before they are read.
template <class T, class Vector>
std::vector<T> elements(const Vector* vector) {
  std::vector<T> all(vector ? vector->size() : 0);
  if (!all.empty()) std::memcpy(all.data(), vector->Data(), all.size() * sizeof(T));
  return all;
}

Result<Body> read(const wire::Hello& t) {
  RUBATO_ASSIGN(auto name, read_name("Hello.name", *t.name()));
  RUBATO_ASSIGN(auto endpoint, read_name("Hello.endpoint", *t.endpoint()));
  Hello m{std::move(name), t.parameters(), std::move(endpoint), GetString(t.settings())};
  m.again = t.again();
  RUBATO_ASSIGN(m.public_key, read_key("Hello.public_key", t.public_key()));
  m.looks = t.looks();
  if (t.trouble()) {
    RUBATO_ASSIGN(m.trouble, read_text("Hello.trouble", *t.trouble()));
  }
  m.left_out = t.left_out();
  m.keeps = t.keeps();
  RUBATO_TRY(check_numbers("Hello", m.parameters, m.left_out));
  if (!t.snapshots()) return m;
  if (t.snapshots()->size() > kSnapshotsMax)
    return corrupt("Hello names {} snapshots; the limit is {}", t.snapshots()->size(),
                   kSnapshotsMax);
  for (const auto& s : elements<wire::SnapshotInfo>(t.snapshots())) {
    RUBATO_TRY(check_numbers("Hello.snapshots", s.number(), s.commits(), s.begin()));
    m.snapshots.push_back({s.run(), s.number(), s.commits(), s.begin()});
  }
  return m;
}
Result<Body> read(const wire::Welcome& t) {
  Welcome m;
  RUBATO_ASSIGN(m.you.role, read_role("Welcome.your_role", t.your_role()));
  m.you.index = t.your_index();
  m.parameters = t.parameters();
  RUBATO_ASSIGN(m.range, read_range(*t.range(), m.parameters));
  m.shards.shards.reserve(t.shards()->size());
  std::uint64_t covered = 0;
  for (const wire::ShardEntry* entry : *t.shards()) {
    RUBATO_ASSIGN(const ElementRange range, read_range(*entry->range(), m.parameters));
    RUBATO_ASSIGN(auto endpoint, read_name("ShardEntry.endpoint", *entry->endpoint()));
    if (range.begin != covered)
      return corrupt("shard map has a gap or overlap at element {}", range.begin);
    covered = range.end;
    RUBATO_ASSIGN(auto public_key, read_key("ShardEntry.public_key", entry->public_key()));
    m.shards.shards.push_back({range, std::move(endpoint), std::move(public_key)});
  }
  if (!m.shards.shards.empty() && covered != m.parameters)
    return corrupt("shard map covers {} of {} parameters", covered, m.parameters);
  m.snapshot = t.snapshot();
  m.steps = t.steps();
  m.setbacks = t.setbacks();
  m.looks = t.looks();
  RUBATO_TRY(check_numbers("Welcome", m.parameters, m.snapshot, m.steps));
  return m;
}
Result<Body> read(const wire::Refusal& t) {
  if (t.code() > wire::RefusalCode::MAX)
    return corrupt("Refusal.code {} is unknown", static_cast<int>(t.code()));
  RUBATO_ASSIGN(auto message, read_text("Refusal.message", *t.message()));
  return Refusal{static_cast<RefusalCode>(t.code()), std::move(message), t.whose()};
}
Result<Body> read(const wire::Leave& t) {
  RUBATO_ASSIGN(auto reason, read_text("Leave.reason", *t.reason()));
  return Leave{std::move(reason)};
}
Result<Body> read(const wire::Stop& t) {
  RUBATO_ASSIGN(auto reason, read_text("Stop.reason", *t.reason()));
  return Stop{std::move(reason), t.failed()};
}
Result<Body> read(const wire::Notice& t) {
  RUBATO_ASSIGN(auto text, read_text("Notice.text", *t.text()));
  return Notice{std::move(text), t.rejoin()};
}

Result<Body> read(const wire::Members& t) {
  RUBATO_TRY(check_numbers("Members", t.epoch(), t.back_to()));
  Members m{t.epoch(),   {},          {.number = t.phase()}, t.setbacks(),
            t.back_to(), t.seeding(), WorkerId{t.seeder()},  t.evaluator()};
  m.members.reserve(t.members()->size());
  for (const auto& member : elements<wire::Member>(t.members()))
    m.members.push_back({WorkerId{member.worker()}, member.incarnation()});
  for (const auto& member : elements<wire::Apart>(t.apart())) {
    RUBATO_TRY(check_numbers("Members", member.from()));
    m.phase.apart[WorkerId{member.worker()}] = {member.from(), member.excluded()};
  }
  return m;
}

// Built where they stay: copying by the vector what was stored by the byte waits for the stores.
Result<void> read(const wire::Commit& t, Body& body) {
  if (t.codec() > wire::PayloadCodec::MAX) return unknown_codec("Commit.codec", t.codec());
  if (t.reply_codec() > wire::PayloadCodec::MAX)
    return unknown_codec("Commit.reply_codec", t.reply_codec());
  if (!(t.reply_keep() > 0 && t.reply_keep() <= 1))
    return not_within("Commit.reply_keep", t.reply_keep(), 1);
  if (!sync::is_weight(t.weight()))
    return not_within("Commit.weight", t.weight(), sync::kWeightMax);
  if (t.elastic() && t.weight() >= 1)
    return corrupt("Commit.weight {} of an elastic commit is not below 1", t.weight());
  if (t.round() > kRoundMax) return corrupt("Commit.round {} is too large", t.round());
  RUBATO_TRY(check_numbers("Commit", t.sequence(), t.total(), t.steps()));
  body.emplace<Commit>(t.sequence(), t.offset(), t.count(), t.total(), t.steps(),
                       static_cast<PayloadCodec>(t.codec()), t.discard(),
                       static_cast<PayloadCodec>(t.reply_codec()), t.reply_keep(), t.reply_based(),
                       t.weight(), t.elastic(), t.began(), t.round(), t.seeding(), t.averaged());
  return {};
}

Result<void> read(const wire::Parameters& t, Body& body) {
  RUBATO_TRY(check_durations("Parameters", t.held_ns()));
  RUBATO_TRY(check_numbers("Parameters", t.sequence(), t.version(), t.total(), t.round()));
  if (t.codec() > wire::PayloadCodec::MAX) return unknown_codec("Parameters.codec", t.codec());
  body.emplace<Parameters>(t.sequence(), t.version(), t.offset(), t.count(), t.total(),
                           Duration{t.held_ns()}, t.refused(), static_cast<PayloadCodec>(t.codec()),
                           t.noted(), t.restores(), t.round(), t.averaged(), t.dropped());
  return {};
}
// Sequence and offsets of chunks that are missing.
template <class Missing>
Result<std::vector<std::uint64_t>> read_missing(const char* name, std::uint64_t sequence,
                                                const Missing* missing) {
  auto all = elements<std::uint64_t>(missing);
  if (all.size() > kMissingOffsetsMax)
    return corrupt("{} names {} chunks; the limit is {}", name, all.size(), kMissingOffsetsMax);
  RUBATO_TRY(check_numbers(name, sequence, all.empty() ? 0 : std::ranges::max(all)));
  return all;
}
Result<Body> read(const wire::Pull& t) {
  RUBATO_ASSIGN(auto offsets, read_missing("Pull", t.sequence(), t.offsets()));
  return Pull{t.sequence(), std::move(offsets), t.latest()};
}
Result<Body> read(const wire::Probe& t) {
  RUBATO_TRY(check_numbers("Probe", t.sequence()));
  return Probe{t.sequence(), t.number()};
}
Result<Body> read(const wire::ProbeReply& t) {
  RUBATO_ASSIGN(auto missing, read_missing("ProbeReply", t.sequence(), t.missing_offsets()));
  return ProbeReply{t.sequence(), t.held(),     std::move(missing),
                    t.unknown(),  t.answered(), t.number()};
}

// Losses may be NaN or infinite: that is how a diverging run is reported.
Result<Body> read(const wire::Progress& t) {
  RUBATO_TRY(check_durations("Progress", t.step_time_ns(), t.overhead_ns(), t.compute_ns(),
                             t.wait_ns(), t.communicate_ns(), t.late_ns()));
  for (const double cosine : {t.align_own(), t.align_during()})
    if (!sync::is_cosine(cosine)) return corrupt("Progress: {} is no cosine", cosine);
  RUBATO_TRY(check_numbers("Progress", t.steps(), t.commits(), t.loss_samples(), t.bytes_up(),
                           t.bytes_down(), t.dropped_commits(), t.dropped_samples()));
  Progress m;
  m.steps = t.steps();
  m.commits = t.commits();
  m.step_time = {t.step_time_ns()};
  m.overhead = {t.overhead_ns()};
  m.batch = t.batch();
  m.alignment = {.own = t.align_own(), .during = t.align_during()};
  m.loss = t.loss();
  m.loss_samples = t.loss_samples();
  m.compute = {t.compute_ns()};
  m.wait = {t.wait_ns()};
  m.communicate = {t.communicate_ns()};
  m.bytes_up = t.bytes_up();
  m.bytes_down = t.bytes_down();
  m.late = {t.late_ns()};
  m.dropped_commits = t.dropped_commits();
  m.dropped_samples = t.dropped_samples();
  return m;
}

Result<std::uint32_t> read_fill(const flatbuffers::Vector<std::uint8_t>* fill) {
  if (!fill) return 0;
  if (fill->size() > kFillMax)
    return corrupt("fill of {} bytes; the limit is {}", fill->size(), kFillMax);
  return fill->size();
}

Result<Body> read(const wire::AskStatus& t) {
  RUBATO_ASSIGN(const auto fill, read_fill(t.fill()));
  return AskStatus{fill};
}

Result<Body> read(const wire::Heartbeat& t) {
  RUBATO_TRY(check_clocks("Heartbeat", t.echo_ns(), t.clock_ns()));
  RUBATO_TRY(check_numbers("Heartbeat", t.saved(), t.saving(), t.commits()));
  Heartbeat m{.echo = {t.echo_ns()}, .clock = {t.clock_ns()}, .saved = t.saved()};
  m.saving = t.saving();
  m.commits = t.commits();
  m.seeded = t.seeded();
  m.broken = t.broken();
  m.wants_snapshot = t.wants_snapshot();
  RUBATO_ASSIGN(m.fill, read_fill(t.fill()));
  if (t.standings() && t.standings()->size() > kStandingsMax)
    return corrupt("Heartbeat tells of {} workers; the limit is {}", t.standings()->size(),
                   kStandingsMax);
  for (const auto& s : elements<wire::Standing>(t.standings())) {
    RUBATO_TRY(check_durations("Heartbeat", s.waited_ns(), s.usual_ns()));
    RUBATO_TRY(
        check_numbers("Heartbeat", s.not_finite(), s.too_large(), s.wrong_kind(), s.out_of_date()));
    m.standings.push_back(
        {.worker = WorkerId{s.worker()},
         .incarnation = s.incarnation(),
         .waited = {s.waited_ns()},
         .usual = {s.usual_ns()},
         .waiting = s.waiting(),
         .in_a_row = s.in_a_row(),
         .others = s.others(),
         .refused = {s.not_finite(), s.too_large(), s.wrong_kind(), s.out_of_date()}});
  }
  return m;
}
Result<Body> read(const wire::Directive& t) {
  if (!sync::is_commit_rate(t.commit_rate()))
    return corrupt("Directive.commit_rate {} is not a number from 1 up", t.commit_rate());
  RUBATO_TRY(check_durations("Directive", t.period_ns()));
  if (!sync::is_weight(t.weight()))
    return not_within("Directive.weight", t.weight(), sync::kWeightMax);
  if (!sync::is_local_rate(t.local_rate()))
    return not_within("Directive.local_rate", t.local_rate(), 1);
  if (!sync::is_quick_steps(t.quick_steps()))
    return not_within("Directive.quick_steps", t.quick_steps(), sync::kQuickStepsMax);
  return Directive{.commit_rate = t.commit_rate(),
                   .local_steps = t.local_steps(),
                   .period = {t.period_ns()},
                   .weight = t.weight(),
                   .batch = t.batch(),
                   .local_rate = t.local_rate(),
                   .quick_steps = t.quick_steps()};
}
Result<Body> read(const wire::Evaluation& t) {
  RUBATO_TRY(check_durations("Evaluation", t.age_ns()));
  RUBATO_TRY(check_numbers("Evaluation", t.version(), t.samples()));
  return Evaluation{{t.age_ns()},
                    t.loss(),
                    t.accuracy(),
                    t.version(),
                    t.samples(),
                    t.squared_error(),
                    t.target_mean(),
                    t.target_square(),
                    {t.recall(), t.f1(), t.auc()},
                    std::isnan(t.gap()) ? std::nullopt : std::optional(t.gap())};
}
Result<Body> read(const wire::Describe& t) {
  RUBATO_ASSIGN(auto name, read_name("Describe.name", *t.name()));
  RUBATO_ASSIGN(auto summary, read_part("Describe.summary", *t.summary()));
  RUBATO_TRY(check_numbers("Describe", t.schema_at()));
  return Describe{std::move(name), std::move(summary), t.schema_at()};
}
Result<Body> read(const wire::Described& t) {
  RUBATO_TRY(check_numbers("Described", t.bytes()));
  return Described{t.bytes()};
}
Result<Body> read(const wire::Schema& t) {
  RUBATO_ASSIGN(auto text, read_part("Schema.text", *t.text()));
  return Schema{std::move(text)};
}

Result<Body> read(const wire::MembersAck& t) {
  RUBATO_TRY(check_numbers("MembersAck", t.epoch()));
  RUBATO_TRY(check_clocks("MembersAck", t.clock_ns()));
  return MembersAck{t.epoch(), {t.clock_ns()}};
}
Result<Body> read(const wire::Save& t) {
  RUBATO_TRY(check_numbers("Save", t.number(), t.keep()));
  RUBATO_TRY(check_clocks("Save", t.clock_ns()));
  RUBATO_TRY(check_durations("Save", t.ago_ns()));
  return Save{t.number(), t.keep(), {t.clock_ns()}, {t.ago_ns()}};
}

Result<Body> read_rare_body(const wire::Envelope& e) {
  // clang-format off
  switch (e.body_type()) {
    case wire::Body::NONE:
    case wire::Body::Commit:
    case wire::Body::Parameters: break;
    case wire::Body::Hello: return read(*e.body_as_Hello());
    case wire::Body::Welcome: return read(*e.body_as_Welcome());
    case wire::Body::Refusal: return read(*e.body_as_Refusal());
    case wire::Body::Start: return Start{e.body_as_Start()->seeding()};
    case wire::Body::Leave: return read(*e.body_as_Leave());
    case wire::Body::Stop: return read(*e.body_as_Stop());
    case wire::Body::Members: return read(*e.body_as_Members());
    case wire::Body::MembersAck: return read(*e.body_as_MembersAck());
    case wire::Body::Pull: return read(*e.body_as_Pull());
    case wire::Body::Probe: return read(*e.body_as_Probe());
    case wire::Body::ProbeReply: return read(*e.body_as_ProbeReply());
    case wire::Body::Progress: return read(*e.body_as_Progress());
    case wire::Body::Heartbeat: return read(*e.body_as_Heartbeat());
    case wire::Body::Directive: return read(*e.body_as_Directive());
    case wire::Body::Evaluation: return read(*e.body_as_Evaluation());
    case wire::Body::Save: return read(*e.body_as_Save());
    case wire::Body::Notice: return read(*e.body_as_Notice());
    case wire::Body::Describe: return read(*e.body_as_Describe());
    case wire::Body::Described: return read(*e.body_as_Described());
    case wire::Body::Schema: return read(*e.body_as_Schema());
    case wire::Body::AskStatus: return read(*e.body_as_AskStatus());
    case wire::Body::Status: return Status{e.body_as_Status()->text()->str()};
  }
  // clang-format on
  return corrupt("body {} is unknown", static_cast<int>(e.body_type()));
}

Result<void> read_body(const wire::Envelope& e, Body& body) {
  if (const auto* commit = e.body_as_Commit()) return read(*commit, body);
  if (const auto* parameters = e.body_as_Parameters()) return read(*parameters, body);
  RUBATO_ASSIGN(body, read_rare_body(e));
  return {};
}

// Returns the FlatBuffer behind the prefix, its checksum verified.
Result<Bytes> strip_prefix(Bytes control) {
  if (control.size() > kControlBytesMax)
    return corrupt("control frame of {} bytes; the limit is {}", control.size(), kControlBytesMax);
  Prefix prefix;
  const Prefix expected;
  if (control.size() < sizeof(prefix))
    return corrupt("control frame of {} bytes is shorter than its prefix", control.size());
  std::memcpy(&prefix, control.data(), sizeof(prefix));
  if (std::memcmp(prefix.magic, expected.magic, sizeof(prefix.magic)) != 0)
    return corrupt("not a Rubato frame");
  if (prefix.version != kProtocolVersion)
    return fail(ErrorCode::Refused,
                fmt::format("the peer speaks protocol version {}, this side version {}; run the "
                            "same release on both",
                            prefix.version, kProtocolVersion));
  const Bytes rest = control.subspan(sizeof(prefix));
  if (prefix.reserved != 0 || prefix.xxh3 != checksum(rest))
    return corrupt("control frame of {} bytes fails its checksum", control.size());
  return rest;
}

// --- the payload: does it belong to its message, and what is it? ---------------------------------

template <class Chunk>
Result<void> check_chunk(const char* name, const Chunk& m, std::size_t payload_bytes) {
  if (m.count > m.total || m.offset > m.total - m.count)
    return corrupt("{} of {} elements at {} does not fit a slice of {}", name, m.count, m.offset,
                   m.total);
  if (m.count == 0 && m.total != 0)
    return corrupt("{} is an empty chunk of a slice of {} elements", name, m.total);
  if (m.averaged > m.count || m.averaged > payload_bytes / sizeof(float))
    return corrupt("{} of {} elements in {} bytes cannot have {} averaged ones", name, m.count,
                   payload_bytes, m.averaged);
  const std::size_t coded = payload_bytes - m.averaged * sizeof(float);
  if (const auto fits = check_compressed_bytes(m.codec, m.count - m.averaged, coded); !fits)
    return corrupt("{} of {}", name, fits.error().message);
  return {};
}

// A chunk (Commit or Parameters) lies in its slice, and the payload can hold it in its codec; other
// bodies have none. Nothing of the payload itself is read.
Result<void> check_payload(const Body& body, std::size_t payload_bytes) {
  if (const auto* commit = std::get_if<Commit>(&body))
    return check_chunk("Commit", *commit, payload_bytes);
  if (const auto* parameters = std::get_if<Parameters>(&body))
    return check_chunk("Parameters", *parameters, payload_bytes);
  if (payload_bytes != 0) return corrupt("{} with a payload", body_name(body));
  return {};
}

// Lets the payload know its checksum and, of an update in float32, its largest element, which is
// asked of every one: one pass, while its bytes are in the cache.
void look_at(const Body& body, Payload& payload) {
  const auto* commit = std::get_if<Commit>(&body);
  if (!commit || commit->codec != PayloadCodec::F32 || commit->averaged > 0) {
    payload.set_checksum(checksum(payload.bytes()));
  } else {
    const FloatsSeen seen = look_through(payload.bytes());
    payload.set_checksum(seen.checksum);
    payload.set_largest(seen.largest);
  }
}

std::uint64_t checksum_of(const Payload& payload) {
  const auto known = payload.checksum();
  return known ? *known : checksum(payload.bytes());
}

// Fills a message where its receiver will find it: a body is expensive to move about.
Result<void> decode_into(Message& message, Bytes control, Payload&& payload,
                         PayloadChecksum payload_checksum) {
  RUBATO_ASSIGN(Bytes table, strip_prefix(control));
  // Received memory is not aligned, and the verifier checks offsets within the buffer only.
  thread_local std::vector<std::uint64_t> aligned;
  if (reinterpret_cast<std::uintptr_t>(table.data()) % alignof(std::uint64_t) != 0) {
    aligned.resize(table.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(aligned.data(), table.data(), table.size());
    table = std::as_bytes(std::span(aligned)).first(table.size());
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(table.data());
  flatbuffers::Verifier verifier(data, table.size());
  if (!verifier.VerifyBuffer<wire::Envelope>(nullptr))
    return corrupt("control frame of {} bytes fails verification", control.size());
  const wire::Envelope& envelope = *flatbuffers::GetRoot<wire::Envelope>(data);

  if (payload.size() > kPayloadBytesMax)
    return corrupt("payload of {} bytes; the limit is {}", payload.size(), kPayloadBytesMax);
  if (envelope.payload_bytes() != payload.size())
    return corrupt("payload of {} bytes where {} are announced", payload.size(),
                   envelope.payload_bytes());
  message.cluster = envelope.cluster();
  RUBATO_ASSIGN(message.sender.role, read_role("sender role", envelope.sender_role()));
  message.sender.index = envelope.sender_index();
  message.incarnation = envelope.incarnation();
  RUBATO_TRY(check_clocks("the envelope", envelope.sent_ns()));
  message.sent = {envelope.sent_ns()};
  RUBATO_TRY(read_body(envelope, message.body));
  RUBATO_TRY(check_payload(message.body, payload.size()));
  message.payload = std::move(payload);
  if (payload_checksum == PayloadChecksum::Verify) {
    look_at(message.body, message.payload);
    if (message.payload.checksum() != envelope.payload_xxh3())
      return corrupt("payload of {} bytes fails its checksum", message.payload.size());
  }
  return {};
}

}  // namespace

std::size_t Encoded::wire_bytes() const {
  return framed_bytes(control.size()) + framed_bytes(payload.size());
}

Result<void> Encoded::check_limits() const {
  if (control.size() > kControlBytesMax || payload.size() > kPayloadBytesMax)
    return fail(ErrorCode::BadInput,
                fmt::format("a message with a control frame of {} bytes and a payload of {} is "
                            "above the limits of {} and {}; use smaller chunks or fewer members",
                            control.size(), payload.size(), kControlBytesMax, kPayloadBytesMax));
  return {};
}

Encoded encode(const Message& message, PayloadChecksum payload_checksum) {
  thread_local Builder builder;
  builder.Clear();
  const WrittenBody body =
      std::visit([](const auto& m) { return written(write(builder, m)); }, message.body);
  const bool skip = payload_checksum == PayloadChecksum::Skip && !message.payload.empty();
  const std::uint64_t xxh3 = skip ? kNoChecksum : checksum_of(message.payload);
  builder.Finish(wire::CreateEnvelope(
      builder, message.cluster, static_cast<wire::Role>(message.sender.role), message.sender.index,
      message.incarnation, message.payload.size(), xxh3, body.type, body.offset, message.sent.ns));
  const Bytes table = std::as_bytes(builder.GetBufferSpan());
  Prefix prefix;
  prefix.xxh3 = checksum(table);
  ControlFrame control(sizeof(prefix) + table.size());
  std::memcpy(control.data(), &prefix, sizeof(prefix));
  std::memcpy(control.data() + sizeof(prefix), table.data(), table.size());
  return {std::move(control), message.payload};
}

Result<Message> decode(Bytes control, Payload payload, PayloadChecksum payload_checksum) {
  struct Blank {
    // NOLINTNEXTLINE(google-explicit-constructor): the conversion is all it is for
    operator Message() const {
      Message message;  // Message() would fill it with zeros first
      return message;
    }
  };
  Result<Message> message(tl::in_place, Blank{});
  auto done = decode_into(*message, control, std::move(payload), payload_checksum);
  if (!done) message = tl::unexpected<Error>(std::move(done.error()));
  return message;
}

}  // namespace rubato::proto
