#include "scheduler/scheduler_journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/checksum.hpp"
#include "base/numbers.hpp"
#include "proto/codec.hpp"

namespace rubato::scheduler {
namespace {

using Kind = SchedulerInput::Kind;
using Words = JournalContext::Words;
using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kMagic = 0x4c4e'524a'4f54'4252;  // "RBTOJRNL"
constexpr std::uint64_t kFormat = 6;
constexpr std::uint64_t kOldestFormat =
    5;  // of 0.2.0: no State, settings in each Hello, and no sum of two
constexpr std::size_t kRecordHead = 8;
constexpr std::size_t kRecordBytesMax = 0xffffff;

// Of settings_of().
constexpr std::string_view kCountLine = "servers.count = ";
constexpr std::string_view kAddressLine = "servers.addresses = ";

Bytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// --- writing -------------------------------------------------------------------------------------

void put_byte(std::string& out, std::uint64_t value) {
  out.push_back(static_cast<char>(value & 0xff));
}

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_text(std::string& out, const std::string& text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

// 7 bits a byte, the lowest first.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) put_byte(out, value | 0x80);
  put_byte(out, value);
}

// A difference of either sign: small ones are short.
void put_difference(std::string& out, std::uint64_t difference) {
  const auto value = static_cast<std::int64_t>(difference);
  put_varint(out,
             (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
}

// --- reading -------------------------------------------------------------------------------------

// Reads what a checksum has shown to be as it was written. It is checked all the same.
class Reader {
 public:
  explicit Reader(Bytes rest) : rest_(rest) {}

  template <class T>
  T get() {
    T value{};
    if (rest_.size() < sizeof(T)) {
      good_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  std::string text() {
    const auto size = get<std::uint64_t>();
    if (size > rest_.size()) {
      good_ = false;
      return {};
    }
    const auto bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = get<std::uint8_t>();
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    good_ = false;
    return 0;
  }
  std::uint64_t difference() {
    const std::uint64_t value = varint();
    return (value >> 1) ^ (~(value & 1) + 1);
  }
  Bytes rest() { return std::exchange(rest_, {}); }
  bool good() const { return good_; }
  bool done() const { return good_ && rest_.empty(); }

 private:
  Bytes rest_;
  bool good_ = true;
};

// --- Progress in words ---------------------------------------------------------------------------

// Of these the bits of a double are kept, of the others the difference.
constexpr std::uint32_t kDoubles = 0b111;

Words words_of(const proto::Progress& p) {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  const auto ns = [](Duration value) { return static_cast<std::uint64_t>(value.ns); };
  Words words{bits(p.loss),  bits(p.alignment.own), bits(p.alignment.during), p.steps,
              p.commits,     ns(p.step_time),       ns(p.overhead),           p.batch,
              p.loss_samples};
  auto word = words.begin() + JournalContext::kOwnWords;
  for (const WorkerFigure& row : kWorkerFigures) *word++ = word_of(p, row);
  return words;
}

proto::Progress progress_of(const Words& words) {
  const auto number = [&](std::size_t i) { return std::bit_cast<double>(words[i]); };
  const auto span = [&](std::size_t i) { return Duration{static_cast<std::int64_t>(words[i])}; };
  proto::Progress p;
  p.loss = number(0);
  p.alignment = {.own = number(1), .during = number(2)};
  p.steps = words[3];
  p.commits = words[4];
  p.step_time = span(5);
  p.overhead = span(6);
  p.batch = static_cast<std::uint32_t>(words[7]);
  p.loss_samples = words[8];
  auto word = words.begin() + JournalContext::kOwnWords;
  for (const WorkerFigure& row : kWorkerFigures) set_word(p, row, *word++);
  return p;
}

void put_changes(std::string& out, const Words& before, const Words& now) {
  std::uint32_t changed = 0;
  for (std::size_t i = 0; i < now.size(); ++i)
    if (now[i] != before[i]) changed |= 1u << i;
  put_varint(out, changed);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!(changed >> i & 1)) continue;
    if (kDoubles >> i & 1)
      put(out, now[i]);
    else
      put_difference(out, now[i] - before[i]);
  }
}

void take_changes(Reader& in, Words& words) {
  const std::uint64_t changed = in.varint();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!(changed >> i & 1)) continue;
    if (kDoubles >> i & 1)
      words[i] = in.get<std::uint64_t>();
    else
      words[i] += in.difference();
  }
}

// --- records -------------------------------------------------------------------------------------

// `before`: nothing in an older format.
std::uint32_t sum_of_input(Bytes input, std::optional<std::uint32_t> before) {
  if (!before) return static_cast<std::uint32_t>(checksum(input));
  RunningChecksum sum;
  sum.add(std::as_bytes(std::span(&*before, 1)));
  sum.add(input);
  return static_cast<std::uint32_t>(sum.value());
}

// Differs when any one bit of the length differs.
std::uint32_t parity_of(std::uint32_t length) {
  return (length ^ length >> 8 ^ length >> 16 ^ 0xa5) & 0xff;
}

// Copies of the header begin at pages, so that no damaged page has bytes of two.
constexpr std::size_t kCopies = 3;
constexpr std::size_t kPageBytes = 4096;

std::size_t in_pages(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

tl::unexpected<Error> damaged_at(std::size_t at) {
  return fail(ErrorCode::Corrupt, fmt::format("is damaged at byte {}", at));
}

bool all_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

std::string settings_of(const SchedulerOptions& options) {
  std::string addresses;
  for (const std::string& address : options.addresses)
    addresses += fmt::format("{}{}\n", kAddressLine, address);
  return options.settings +
         fmt::format(
             "model parameters = {}\n{}{}\nworkers at the start = {}\n"
             "evaluated by = {}\nevaluation.interval_seconds = {:g}\n"
             "snapshot.every_seconds = {:g}\nservers.absent_seconds = {:g}\n"
             "workers_absent_seconds = {:g}\n",
             options.parameters, kCountLine, options.servers, options.workers,
             options.evaluations == SchedulerOptions::Evaluations::Evaluator ? "the scheduler"
             : options.evaluations == SchedulerOptions::Evaluations::Workers ? "workers"
                                                                             : "nobody",
             options.evaluation_interval.seconds(), options.save_every.seconds(),
             options.absent_max.seconds(), options.workers_absent_max.seconds()) +
         addresses +
         (options.watch
              ? fmt::format("stalled_seconds = {:g}\nfirst_commit_seconds = {:g}\n",
                            options.watch->stalled.seconds(), options.watch->first_commit.seconds())
              : std::string());
}

Resharding servers_of(const std::string& settings) {
  Resharding servers;
  for (std::string_view rest = settings; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.starts_with(kCountLine))
      servers.servers = parse_number<std::uint32_t>(line.substr(kCountLine.size())).value_or(0);
    if (line.starts_with(kAddressLine))
      servers.addresses.emplace_back(line.substr(kAddressLine.size()));
  }
  return servers;
}

std::string header_bytes(const JournalHeader& header) {
  std::string fields;
  put(fields, header.protocol);
  put(fields, header.cluster);
  put(fields, header.run);
  put_text(fields, header.settings);
  put_text(fields, header.schema);
  put(fields, std::uint64_t{header.samples.size()});
  for (const auto& [worker, samples] : header.samples) {
    put_text(fields, worker);
    put(fields, samples);
  }
  put(fields, header.began.ns);
  put(fields, header.began_wall);
  std::string out;
  put(out, kMagic);
  put(out, kFormat);
  put_text(out, fields);
  put(out, checksum(bytes_of(out)));
  out.resize(in_pages(out.size()));
  std::string copies;
  for (std::size_t i = 0; i < kCopies; ++i) copies += out;
  return copies;
}

// --- a record ------------------------------------------------------------------------------------

std::string record_of(std::string_view input, std::uint32_t before) {
  const auto length = static_cast<std::uint32_t>(input.size());
  std::string record;
  put(record, length | parity_of(length) << 24);
  put(record, sum_of_input(std::as_bytes(std::span(input)), before));
  return record.append(input);
}

std::uint32_t sum_of(std::string_view record) {
  std::uint32_t sum = 0;
  std::memcpy(&sum, record.data() + sizeof sum, sizeof sum);
  return sum;
}

const JournalContext::Sender* JournalContext::find(proto::NodeId node) const {
  const auto known = senders_.find(node);
  return known == senders_.end() ? nullptr : &known->second;
}

void JournalContext::note(const SchedulerInput& input, std::uint32_t sum) {
  sum_ = sum;
  if (input.kind == Kind::State) return;
  last_ = input.now;
  const proto::Message& message = input.message;
  if (input.kind != Kind::Message) return;
  if (std::holds_alternative<proto::Hello>(message.body)) return;  // it does not know its number
  Sender& sender = senders_[message.sender];
  if (sender.incarnation != message.incarnation) sender = {.incarnation = message.incarnation};
  if (const auto* progress = std::get_if<proto::Progress>(&message.body))
    sender.progress = words_of(*progress);
}

std::string JournalContext::write(const SchedulerInput& input) const {
  const proto::Message& message = input.message;
  const Sender* known = input.kind == Kind::Message ? find(message.sender) : nullptr;
  if (known && known->incarnation != message.incarnation) known = nullptr;
  const auto* progress = known ? std::get_if<proto::Progress>(&message.body) : nullptr;
  const auto* beat = known ? std::get_if<proto::Heartbeat>(&message.body) : nullptr;
  if (beat && (!beat->standings.empty() || beat->broken || beat->wants_snapshot)) beat = nullptr;
  const Kind kind = progress ? Kind::Progress : beat ? Kind::Heartbeat : input.kind;
  std::string bytes;
  put_byte(bytes, static_cast<std::uint8_t>(kind));
  if (kind == Kind::State) {
    put(bytes, input.state);
    return bytes;
  }
  put_difference(bytes, static_cast<std::uint64_t>((input.now - last_).ns));
  if (progress || beat) {
    put_byte(bytes, static_cast<std::uint8_t>(message.sender.role));
    put_varint(bytes, message.sender.index);
  }
  if (progress) {
    put_changes(bytes, known->progress, words_of(*progress));
  } else if (beat) {
    for (const std::uint64_t number :
         {beat->saved, beat->saving, beat->commits, std::uint64_t{beat->seeded}})
      put_varint(bytes, number);
  } else if (kind == Kind::Return) {
    put(bytes, input.wall);
  } else if (kind == Kind::Resharded) {
    put_varint(bytes, input.to.servers);
    put_varint(bytes, input.to.snapshot);
    put_varint(bytes, input.to.addresses.size());
    for (const std::string& address : input.to.addresses) put_text(bytes, address);
  } else if (kind == Kind::Message) {
    proto::Message asked_nothing = message;
    asked_nothing.sent = {};
    if (auto* filled = std::get_if<proto::Heartbeat>(&asked_nothing.body)) filled->fill = 0;
    const auto frame = proto::encode(asked_nothing);
    bytes.append(reinterpret_cast<const char*>(frame.control.data()), frame.control.size());
  }
  return bytes;
}

Result<SchedulerInput> JournalContext::read(Bytes bytes, std::uint64_t cluster) const {
  const auto unknown = [] { return fail(ErrorCode::Corrupt, "has a record that nobody knows"); };
  Reader in(bytes);
  const auto kind = in.get<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(Kind::State)) return unknown();
  SchedulerInput input;
  input.kind = static_cast<Kind>(kind);
  input.now = last_;
  if (input.kind != Kind::State) {
    input.now.ns =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(last_.ns) + in.difference());
    if (input.now < last_) return unknown();
  }
  switch (input.kind) {
    case Kind::Wakeup:
      break;
    case Kind::State:
      input.state = in.get<std::uint64_t>();
      break;
    case Kind::Return:
      input.wall = in.get<std::int64_t>();
      break;
    case Kind::Resharded:
      input.to.servers = static_cast<std::uint32_t>(in.varint());
      input.to.snapshot = in.varint();
      for (auto left = in.varint(); left > 0 && in.good(); --left)
        input.to.addresses.push_back(in.text());
      if (input.to.servers == 0) return unknown();
      break;
    case Kind::Message: {
      RUBATO_ASSIGN(input.message, proto::decode(in.rest(), {}));
      break;
    }
    case Kind::Progress:
    case Kind::Heartbeat: {
      const auto role = in.get<std::uint8_t>();
      const auto index = static_cast<std::uint32_t>(in.varint());
      input.message.cluster = cluster;
      input.message.sender = {static_cast<proto::Role>(role), index};
      const Sender* const sender = find(input.message.sender);
      if (!sender) return unknown();
      input.message.incarnation = sender->incarnation;
      if (input.kind == Kind::Progress) {
        Words words = sender->progress;
        take_changes(in, words);
        input.message.body = progress_of(words);
      } else {
        auto& beat = input.message.body.emplace<proto::Heartbeat>();
        for (auto* const number : {&beat.saved, &beat.saving, &beat.commits}) *number = in.varint();
        beat.seeded = static_cast<std::uint32_t>(in.varint());
      }
      input.kind = Kind::Message;
      break;
    }
  }
  if (!in.done()) return unknown();
  return input;
}

Result<std::string> JournalWriter::record(const SchedulerInput& input) const {
  const std::string bytes = context_.write(input);
  if (bytes.size() > kRecordBytesMax)
    return fail(ErrorCode::Corrupt, fmt::format("a record of {} bytes; the limit is {}",
                                                bytes.size(), kRecordBytesMax));
  RUBATO_TRY(context_.read(bytes_of(bytes), input.message.cluster));
  return record_of(bytes, context_.sum());
}

// --- a journal -----------------------------------------------------------------------------------

Result<JournalReader> JournalReader::open(Bytes bytes) {
  std::string magic;
  put(magic, kMagic);
  for (auto at = bytes.begin();; ++at) {
    at = std::ranges::search(at, bytes.end(), magic.begin(), magic.end(), {}, [](std::byte byte) {
           return static_cast<char>(byte);
         }).begin();
    if (at == bytes.end()) {  // what is wrong with the first copy says most
      auto first = open_at(bytes, 0);
      return first ? Result<JournalReader>(damaged_at(0)) : std::move(first);
    }
    const auto offset = static_cast<std::size_t>(at - bytes.begin());
    auto copy = open_at(bytes, offset);
    if (!copy) continue;
    const std::size_t each = in_pages(copy->position_), all = kCopies * each;
    if (offset % each != 0 || offset >= all || all > bytes.size()) continue;
    copy->position_ = all;
    return copy;
  }
}

Result<JournalReader> JournalReader::open_at(Bytes all, std::size_t offset) {
  const Bytes bytes = all.subspan(offset);
  Reader in(bytes);
  const auto magic = in.get<std::uint64_t>();
  const auto format = in.get<std::uint64_t>();
  if (!in.good() || magic != kMagic)
    return fail(ErrorCode::Corrupt, "is no journal of a scheduler");
  if (format < kOldestFormat || format > kFormat)
    return fail(ErrorCode::Corrupt, "is a journal of another version of rubato");
  const std::string text = in.text();
  const std::size_t size = 3 * sizeof(std::uint64_t) + text.size();
  const auto sum = in.get<std::uint64_t>();
  if (!in.good() || sum != checksum(bytes.first(size))) return damaged_at(0);
  JournalReader reader(all);
  reader.older_ = format < kFormat;
  JournalHeader& header = reader.header_;
  Reader fields(bytes_of(text));
  header.protocol = fields.get<std::uint64_t>();
  header.cluster = fields.get<std::uint64_t>();
  header.run = fields.get<std::uint64_t>();
  header.settings = fields.text();
  header.schema = fields.text();
  for (auto left = fields.get<std::uint64_t>(); left > 0 && fields.good(); --left) {
    std::string worker = fields.text();
    header.samples[std::move(worker)] = fields.get<std::uint64_t>();
  }
  header.began = {fields.get<std::int64_t>()};
  header.began_wall = fields.get<std::int64_t>();
  if (!fields.done()) return damaged_at(0);
  reader.position_ = size + sizeof sum;
  reader.context_ = JournalContext(header);
  reader.wall_at_ = header.began;
  reader.wall_ = header.began_wall;
  return reader;
}

std::string JournalReader::renewed() const {
  std::string journal = header_bytes(header_);  // as long as it was: only the format differs
  Bytes records = bytes_.first(position_).subspan(journal.size());
  for (std::uint32_t sum = JournalContext(header_).sum(); !records.empty();) {
    const std::size_t length = Reader(records).get<std::uint32_t>() & kRecordBytesMax;
    const Bytes input = records.subspan(kRecordHead, length);
    const auto record = record_of({reinterpret_cast<const char*>(input.data()), input.size()}, sum);
    sum = sum_of(record);
    journal += record;
    records = records.subspan(record.size());
  }
  return journal;
}

std::optional<SchedulerInput> JournalReader::next() {
  const Bytes rest = bytes_.subspan(position_);
  const auto ends = [&](bool damaged) {
    damaged_ = damaged;
    return std::nullopt;
  };
  if (rest.size() < kRecordHead || all_zero(rest.first(kRecordHead)))
    return ends(rest.size() >= kRecordHead && !all_zero(rest));
  std::uint32_t head[2];
  std::memcpy(head, rest.data(), sizeof head);
  const std::uint32_t length = head[0] & kRecordBytesMax;
  if (parity_of(length) != head[0] >> 24) return ends(true);
  if (length > rest.size() - kRecordHead) return ends(false);
  const Bytes record = rest.subspan(kRecordHead, length);
  const std::uint32_t sum = sum_of_input(record, context_.sum());
  if ((older_ ? sum_of_input(record, std::nullopt) : sum) != head[1])
    return ends(!all_zero(rest.subspan(kRecordHead + length)));
  auto input = context_.read(record, header_.cluster);
  if (!input) return ends(true);
  context_.note(*input, sum);  // as renewed() has it
  if (input->kind == Kind::Return) {
    wall_at_ = input->now;
    wall_ = input->wall;
  }
  position_ += kRecordHead + length;
  return std::move(*input);
}

}  // namespace rubato::scheduler
