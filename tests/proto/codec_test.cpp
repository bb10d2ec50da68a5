// The codec by example: what is refused and with which words, and the bytes of version 2.
#include "proto/codec.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <type_traits>

#include "tests/proto/samples.hpp"

namespace rubato::proto {
namespace {

Result<Message> round_trip(const Message& message) {
  const Encoded encoded = encode(message);
  return decode(encoded.control, encoded.payload);
}

void check_corrupt(const Message& message, const std::string& words) {
  const auto decoded = round_trip(message);
  CAPTURE(words);
  REQUIRE(!decoded);
  CAPTURE(decoded.error().message);
  CHECK(decoded.error().code == ErrorCode::Corrupt);
  CHECK(decoded.error().message.find(words) != std::string::npos);
}

TEST_CASE("every body comes back as it went") {
  std::set<std::string> names;
  for (const Message& message : samples::every_message()) {
    CAPTURE(body_name(message.body));
    const auto decoded = round_trip(message);
    REQUIRE(decoded);
    CHECK(samples::same(message, *decoded));
    names.insert(body_name(message.body));
  }
  CHECK(names.size() == std::variant_size_v<Body>);
}

TEST_CASE("every figure of a worker comes back as it went") {
  Progress sent;
  std::uint64_t word = 1000;
  for (const WorkerFigure& row : kWorkerFigures) set_word(sent, row, ++word);
  const auto decoded = round_trip(samples::message(sent));
  REQUIRE(decoded);
  for (const WorkerFigure& row : kWorkerFigures) {
    CAPTURE(row.name);
    CHECK(word_of(std::get<Progress>(decoded->body), row) == word_of(sent, row));
  }
}

TEST_CASE("the payload is passed on, not copied") {
  const Message message = samples::commit(1, 1000);
  const auto decoded = round_trip(message);
  REQUIRE(decoded);
  CHECK(decoded->payload.bytes().data() == message.payload.bytes().data());
}

TEST_CASE("control frames are small on the parameter path") {
  Commit commit{1, 2, 3, 4, 5, PayloadCodec::F32};
  commit.sequence = commit.offset = commit.total = std::numeric_limits<std::uint64_t>::max();
  CHECK(encode(samples::message(commit)).control.size() < 256);
  for (const Message& message : samples::every_message()) {
    CAPTURE(body_name(message.body));
    const bool beside_training = std::holds_alternative<Describe>(message.body) ||
                                 std::holds_alternative<Described>(message.body) ||
                                 std::holds_alternative<Schema>(message.body) ||
                                 std::holds_alternative<Status>(message.body);
    CHECK((beside_training || encode(message).control.size() < 1024));
  }
}

TEST_CASE("the cost on a wire counts both frames and their headers") {
  const Encoded small = encode(samples::message(Heartbeat{}));
  CHECK(small.wire_bytes() == small.control.size() + 2 + 2);
  const Encoded large = encode(samples::commit(1, 64));  // 256 bytes: the long form
  CHECK(large.wire_bytes() == large.control.size() + 2 + 256 + 9);
}

TEST_CASE("another protocol version is refused, naming both") {
  Encoded encoded = encode(samples::message(Heartbeat{}));
  encoded.control[4] = std::byte{10};
  const auto decoded = decode(encoded.control, {});
  REQUIRE(!decoded);
  CHECK(decoded.error().code == ErrorCode::Refused);
  CHECK(decoded.error().message.find("version 10") != std::string::npos);
  CHECK(decoded.error().message.find("version 9") != std::string::npos);
}

// docs/protocol.md, worked example: a change of these bytes is a new protocol version.
TEST_CASE("the bytes of a version 9 commit") {
  const Encoded encoded = encode({cluster_id("edge-3"),
                                  {Role::Worker, 2},
                                  7,
                                  Commit{41, 0, 2, 2, 10, PayloadCodec::F32},
                                  samples::floats(2)});
  std::string hex;
  for (const std::byte b : encoded.control) hex += fmt::format("{:02x}", static_cast<unsigned>(b));
  CHECK(hex ==
        "5242544f090000002a001c0c01083d2b"
        "180000001400360010000600080018002000280007000c00140000000000020a"
        "02000000380000004c970911a1c4fe7c07000000000000000800000000000000"
        "b7f434718fd7e84d0000000000000e002400040000000c0014001c000e000000"
        "2900000000000000020000000000000002000000000000000a00000000000000");
}

TEST_CASE("a chunk lies in its slice and its payload is the chunk") {
  const auto commit = [](std::uint64_t offset, std::uint64_t count, std::uint64_t total,
                         std::size_t floats) {
    return samples::message(Commit{1, offset, count, total, 1, PayloadCodec::F32},
                            samples::floats(floats));
  };
  CHECK(round_trip(commit(6, 4, 10, 4)));
  CHECK(round_trip(commit(0, 0, 0, 0)));  // the slice of a shard without parameters
  check_corrupt(commit(7, 4, 10, 4), "does not fit a slice");
  check_corrupt(commit(0, 11, 10, 11), "does not fit a slice");
  check_corrupt(commit(~std::uint64_t{0}, 4, 10, 4), "does not fit a slice");
  check_corrupt(commit(0, 0, 10, 0), "empty chunk");
  check_corrupt(commit(0, 4, 10, 3), "with a payload of 12 bytes");
  check_corrupt(commit(0, kNumberMax, kNumberMax, 0), "payload of 0 bytes");
  check_corrupt(
      samples::message(Commit{1, 0, 1, 1, 1, PayloadCodec::F32}, samples::floats(2).slice(0, 5)),
      "with a payload of 5 bytes");
  check_corrupt(samples::message(Parameters{1, 1, 7, 4, 10, {}, false, PayloadCodec::F32},
                                 samples::floats(4)),
                "Parameters of 4 elements at 7");
}

// One field of a message, with a value of the test's.
template <class Value, class Body>
auto one(Body body, std::type_identity_t<std::function<Value&(Body&)>> field) {
  return [body, field](Value value) {
    auto changed = body;
    field(changed) = value;
    return samples::message(std::move(changed));
  };
}

TEST_CASE("every number that a peer says of itself has a bound") {
  using Number = std::uint64_t;
  const auto of = [](auto body, auto field) { return one<Number>(body, field); };
  Hello snapshot;
  snapshot.snapshots.resize(1);
  Members apart;
  apart.phase.apart[WorkerId{1}] = {};
  Heartbeat standing;
  standing.standings.resize(1);
  ProbeReply missing;
  missing.missing_offsets.resize(1);
  std::vector<std::function<Message(Number)>> numbers{
      of(Hello{}, [](Hello& m) -> Number& { return m.parameters; }),
      of(snapshot, [](Hello& m) -> Number& { return m.snapshots[0].number; }),
      of(snapshot, [](Hello& m) -> Number& { return m.snapshots[0].commits; }),
      of(snapshot, [](Hello& m) -> Number& { return m.snapshots[0].begin; }),
      of(Welcome{}, [](Welcome& m) -> Number& { return m.parameters; }),
      of(Welcome{}, [](Welcome& m) -> Number& { return m.snapshot; }),
      of(Welcome{}, [](Welcome& m) -> Number& { return m.steps; }),
      of(Members{}, [](Members& m) -> Number& { return m.epoch; }),
      of(Members{}, [](Members& m) -> Number& { return m.back_to; }),
      of(apart, [](Members& m) -> Number& { return m.phase.apart.begin()->second.from; }),
      of(MembersAck{}, [](MembersAck& m) -> Number& { return m.epoch; }),
      of(Save{}, [](Save& m) -> Number& { return m.number; }),
      of(Save{}, [](Save& m) -> Number& { return m.keep; }),
      of(Pull{}, [](Pull& m) -> Number& { return m.sequence; }),
      of(Pull{1, {0}}, [](Pull& m) -> Number& { return m.offsets[0]; }),
      of(Commit{}, [](Commit& m) -> Number& { return m.sequence; }),
      of(Commit{}, [](Commit& m) -> Number& { return m.steps; }),
      of(Parameters{}, [](Parameters& m) -> Number& { return m.sequence; }),
      of(Parameters{}, [](Parameters& m) -> Number& { return m.version; }),
      of(Parameters{}, [](Parameters& m) -> Number& { return m.round; }),
      of(Probe{}, [](Probe& m) -> Number& { return m.sequence; }),
      of(ProbeReply{}, [](ProbeReply& m) -> Number& { return m.sequence; }),
      of(missing, [](ProbeReply& m) -> Number& { return m.missing_offsets[0]; }),
      of(Progress{}, [](Progress& m) -> Number& { return m.steps; }),
      of(Progress{}, [](Progress& m) -> Number& { return m.commits; }),
      of(Progress{}, [](Progress& m) -> Number& { return m.loss_samples; }),
      of(Heartbeat{}, [](Heartbeat& m) -> Number& { return m.saved; }),
      of(standing, [](Heartbeat& m) -> Number& { return m.standings[0].refused[0]; }),
      of(standing, [](Heartbeat& m) -> Number& { return m.standings[0].refused[3]; }),
      of(Evaluation{}, [](Evaluation& m) -> Number& { return m.version; }),
      of(Evaluation{}, [](Evaluation& m) -> Number& { return m.samples; }),
  };
  for (const WorkerFigure& row : kWorkerFigures)
    if (row.number)
      numbers.push_back(of(Progress{}, [&row](Progress& m) -> Number& { return m.*row.number; }));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CAPTURE(i);
    CHECK(round_trip(numbers[i](kNumberMax)));
    for (const Number value : {kNumberMax + 1, Number{1} << 63, ~Number{0}})
      check_corrupt(numbers[i](value), "no number of ours");
  }
  for (const auto& [size, fits] : {std::pair{kFillMax, true}, {kFillMax + 1, false}}) {
    Heartbeat beat;
    beat.fill = size;
    for (const Message& each : {samples::message(beat), samples::message(AskStatus{size})})
      if (fits)
        CHECK(round_trip(each));
      else
        check_corrupt(each, "fill");
  }
  const auto round = of(Commit{}, [](Commit& m) -> Number& { return m.round; });
  CHECK(round_trip(round(kRoundMax)));
  check_corrupt(round(kRoundMax + 1), "is too large");
}

TEST_CASE("every time that a peer says of itself has a bound") {
  const auto of = [](auto body, auto field) { return one<Duration>(body, field); };
  Heartbeat standing;
  standing.standings.resize(1);
  std::vector<std::function<Message(Duration)>> times{
      of(Parameters{}, [](Parameters& m) -> Duration& { return m.held; }),
      of(Progress{}, [](Progress& m) -> Duration& { return m.step_time; }),
      of(Progress{}, [](Progress& m) -> Duration& { return m.overhead; }),
      of(standing, [](Heartbeat& m) -> Duration& { return m.standings[0].waited; }),
      of(standing, [](Heartbeat& m) -> Duration& { return m.standings[0].usual; }),
      of(Directive{}, [](Directive& m) -> Duration& { return m.period; }),
      of(Save{}, [](Save& m) -> Duration& { return m.ago; }),
      of(Evaluation{}, [](Evaluation& m) -> Duration& { return m.age; }),
  };
  for (const WorkerFigure& row : kWorkerFigures)
    if (row.time)
      times.push_back(of(Progress{}, [&row](Progress& m) -> Duration& { return m.*row.time; }));
  for (std::size_t i = 0; i < times.size(); ++i) {
    CAPTURE(i);
    CHECK(round_trip(times[i](kSpanMax)));
    check_corrupt(times[i]({kSpanMax.ns + 1}), "a duration of years");
    check_corrupt(times[i]({INT64_MAX}), "a duration of years");
    check_corrupt(times[i]({-1}), "a negative duration");
    check_corrupt(times[i]({INT64_MIN}), "a negative duration");
  }
}

TEST_CASE("a payload has the size that its codec and count allow") {
  const auto commit = [](PayloadCodec codec, std::uint64_t count, std::size_t bytes) {
    return samples::message(Commit{1, 0, count, count, 1, codec},
                            samples::floats(bytes / 4 + 1).slice(0, bytes));
  };
  CHECK(round_trip(commit(PayloadCodec::F16, 3, 6)));
  CHECK(round_trip(commit(PayloadCodec::Bf16, 3, 6)));
  CHECK(round_trip(commit(PayloadCodec::Int8, 257, 2 * 4 + 257)));
  CHECK(round_trip(commit(PayloadCodec::TopK, 1000, 4 + 10 * 4)));
  check_corrupt(commit(PayloadCodec::F16, 3, 12), "3 elements in f16 with a payload of 12 bytes");
  check_corrupt(commit(PayloadCodec::Int8, 257, 4 + 257), "in int8 with a payload of 261 bytes");
  check_corrupt(commit(PayloadCodec::TopK, 1000, 4), "in top-k with a payload of 4 bytes");
  // Few bytes may not ask for much memory.
  check_corrupt(commit(PayloadCodec::TopK, std::uint64_t{1} << 40, 10), "payload of 10 bytes");
}

TEST_CASE("codecs that no version has are refused by field") {
  constexpr auto kUnknown = static_cast<PayloadCodec>(200);
  check_corrupt(samples::message(Commit{1, 0, 1, 1, 1, kUnknown}, samples::floats(1)),
                "Commit.codec 200 is unknown");
  check_corrupt(samples::message(Commit{1, 0, 1, 1, 1, {}, false, kUnknown}, samples::floats(1)),
                "Commit.reply_codec 200 is unknown");
  check_corrupt(
      samples::message(Parameters{1, 1, 0, 1, 1, {}, false, kUnknown}, samples::floats(1)),
      "Parameters.codec 200 is unknown");
  for (const double keep : {0.0, -1.0, 1.5, std::nan("")})
    check_corrupt(samples::message(Commit{1, 0, 1, 1, 1, {}, false, PayloadCodec::TopK, keep},
                                   samples::floats(1)),
                  "Commit.reply_keep");
}

TEST_CASE("only commits and parameters carry a payload") {
  for (Message message : samples::every_message()) {
    if (!message.payload.empty()) continue;
    message.payload = samples::floats(1);
    check_corrupt(message, fmt::format("{} with a payload", body_name(message.body)));
  }
}

TEST_CASE("values that no node sends are refused") {
  for (const double rate : {-1.0, 0.0, 0.5})
    check_corrupt(samples::message(Directive{rate}), "commit_rate");
  check_corrupt(samples::message(Directive{std::nan("")}), "commit_rate");
  check_corrupt(samples::message(Directive{HUGE_VAL}), "commit_rate");
  for (const double weight : {0.0, -1.0, std::nan(""), HUGE_VAL, 2 * sync::kWeightMax}) {
    Commit commit{1, 0, 1, 1, 1};
    commit.weight = weight;
    check_corrupt(samples::message(commit, samples::floats(1)), "Commit.weight");
    check_corrupt(samples::message(Directive{1, 0, {}, weight}), "Directive.weight");
  }
  for (const double rate : {0.0, -0.5, 1.5, std::nan("")})
    check_corrupt(samples::message(Directive{1, 0, {}, 1, 0, rate}), "Directive.local_rate");
  for (const double steps : {-0.5, std::nan(""), 2 * sync::kQuickStepsMax})
    check_corrupt(samples::message(Directive{1, 0, {}, 1, 0, 1, steps}), "Directive.quick_steps");
  for (const double cosine : {-1.1, 1.1, std::nan("")}) {
    Progress lies;
    lies.alignment.during = cosine;
    check_corrupt(samples::message(lies), "is no cosine");
  }
  Commit elastic{1, 0, 1, 1, 1};
  elastic.elastic = true;  // of weight 1
  check_corrupt(samples::message(elastic, samples::floats(1)), "elastic commit is not below 1");
  check_corrupt(samples::message(Evaluation{{-1}, 1, 1, 1}), "negative duration");
  Progress progress;
  progress.communicate = {-1};
  check_corrupt(samples::message(progress), "negative duration");
  check_corrupt(samples::message(Parameters{1, 1, 0, 1, 1, {-1}, false, PayloadCodec::F32},
                                 samples::floats(1)),
                "negative duration");
  check_corrupt(samples::message(Refusal{static_cast<RefusalCode>(99), "?"}), "Refusal.code 99");
  Message stranger = samples::message(Heartbeat{});
  stranger.sender.role = static_cast<Role>(9);
  check_corrupt(stranger, "sender role 9");
  check_corrupt(samples::message(Welcome{{static_cast<Role>(9), 0}, 1, {0, 1}, {}}),
                "Welcome.your_role 9");
}

TEST_CASE("a diverged loss is news, not garbage") {
  Progress progress;
  progress.loss = std::nan("");
  const auto decoded = round_trip(samples::message(progress));
  REQUIRE(decoded);
  CHECK(std::isnan(std::get<Progress>(decoded->body).loss));
}

TEST_CASE("a shard map covers the parameters without gap or overlap") {
  const auto welcome = [](const std::vector<ElementRange>& ranges) {
    Welcome m{{Role::Worker, 0}, 10, {0, 0}, {}};
    for (const ElementRange& range : ranges) m.shards.shards.push_back({range, "tcp://h:1"});
    return samples::message(m);
  };
  CHECK(round_trip(welcome({{0, 4}, {4, 4}, {4, 10}})));
  CHECK(round_trip(welcome({})));
  check_corrupt(welcome({{0, 4}, {5, 10}}), "gap or overlap at element 5");
  check_corrupt(welcome({{0, 4}, {3, 10}}), "gap or overlap at element 3");
  check_corrupt(welcome({{0, 4}, {4, 9}}), "covers 9 of 10");
  check_corrupt(welcome({{0, 11}}), "does not fit 10 parameters");
  check_corrupt(welcome({{4, 0}}), "does not fit 10 parameters");
}

TEST_CASE("texts are bounded") {
  const std::string long_text(kTextBytesMax + 1, 'x');
  check_corrupt(samples::message(Hello{long_text, 1, ""}), "Hello.name is 1025 bytes long");
  check_corrupt(samples::message(Hello{"a", 1, long_text}), "Hello.endpoint is 1025 bytes long");
  const auto stop = round_trip(samples::message(Stop{long_text}));
  REQUIRE(stop);
  CHECK(std::get<Stop>(stop->body).reason == std::string(kTextBytesMax, 'x'));
}

TEST_CASE("names and addresses hide nothing, and the refusal shows what is wrong") {
  for (const char* hidden : {"\x1b[2J", "\n", "\x7f", "\xc2\x9b", "\xe2\x80\xae", "\xe2\x80\x8b",
                             "\xd8\x9c", "\xef\xbb\xbf", "\xff"}) {
    const std::string name = std::string("pi") + hidden + "-0";
    CAPTURE(name);
    check_corrupt(samples::message(Hello{name, 1, ""}), "Hello.name \"pi?");
    check_corrupt(samples::message(Hello{"a", 1, name}), "Hello.endpoint \"pi?");
    check_corrupt(samples::message(Describe{.name = name}), "Describe.name \"pi?");
    Welcome welcome{{Role::Worker, 0}, 10, {0, 0}, {}};
    welcome.shards.shards.push_back({{0, 10}, name});
    check_corrupt(samples::message(welcome), "ShardEntry.endpoint \"pi?");
  }
  CHECK(round_trip(samples::message(Hello{"Zoë 字", 1, "tcp://box:1"})));
}

TEST_CASE("lists are bounded") {
  ProbeReply reply;
  reply.missing_offsets.resize(kMissingOffsetsMax + 10);
  const auto decoded = round_trip(samples::message(reply));
  REQUIRE(decoded);
  CHECK(std::get<ProbeReply>(decoded->body).missing_offsets.size() == kMissingOffsetsMax);
  const auto pull = round_trip(samples::message(Pull{1, reply.missing_offsets}));
  REQUIRE(pull);
  CHECK(std::get<Pull>(pull->body).offsets.size() == kMissingOffsetsMax);

  Members members;
  members.members.resize(16'000);
  CHECK(encode(samples::message(members)).check_limits());
  CHECK(round_trip(samples::message(members)));
  members.members.resize(17'000);
  const auto refused = encode(samples::message(members)).check_limits();
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::BadInput);
  check_corrupt(samples::message(members), "the limit is 262144");

  const std::size_t too_many = kPayloadBytesMax / sizeof(float) + 1;
  CHECK(!encode(samples::commit(1, too_many)).check_limits());
  check_corrupt(samples::commit(1, too_many), "payload of 16777220 bytes; the limit is 16777216");
}

TEST_CASE("names of nodes and clusters") {
  CHECK(to_string(NodeId{Role::Scheduler, 0}) == "scheduler");
  CHECK(to_string(NodeId{Role::Worker, 3}) == "worker 3");
  CHECK(cluster_id("edge-3") != cluster_id("edge-18"));
  CHECK(cluster_id("edge-3") == cluster_id(std::string("edge-") + "3"));
}

}  // namespace
}  // namespace rubato::proto
